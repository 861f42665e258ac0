/* export_formats.h: the statistics in the formats of other tools. Each function writes a whole
 * document; none judges, and none reads more than the records. */
#pragma once

#include <stdio.h>

#include "read/derived.h"
#include "read/records.h"

/* For a bug thread: figures that are asked for first, and the page of text folded up. */
void export_markdown(FILE *out, const struct records *records);

/* The text format of Prometheus: what a node_exporter's textfile collector takes. */
void export_prometheus(FILE *out, const struct records *records);

/* For who reads that (cli/texts.S): alerts, and a dashboard with all figures. */
extern const char prometheus_rules[], grafana_dashboard[];

/* Chrome's trace event format, which Perfetto opens: memory over time, reclaims, refusals, marks.
 */
void export_perfetto(FILE *out, const struct records *records);

/* A snapshot for PyTorch's memory_viz, of the record that held most. */
void export_torch(FILE *out, const struct records *records);

/* Such a snapshot beside the statistics file, as FILE.pickle, if there is a map of an
 * out-of-memory; says so in one line. */
void export_torch_beside(struct stats_file *record);
