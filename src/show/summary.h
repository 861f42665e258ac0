/* summary.h: the statistics as a page of text, 80 columns wide, that survives being pasted into an
 * issue: verdict first, a table that adds up, what was done, what was refused, what to type next.
 *
 * Of show/ always: it shows, and computes nothing. A figure comes from read/derived.h, a sentence
 * from judge/, so that text, JSON, page and exports say the same; the rows of a card are made once
 * (device_table.h), and so are the fields of a record (fields.def). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "read/stats_file.h"
#include "show/report_fields.h"
#include "read/units.h"
#include "base/text.h"

struct summary_style {
    bool only_verdict;
    size_t most_rows; /* of the lists of reclaims and of refusals; the newest are shown */
    bool next_commands;
};

/* launch is NULL for `vramgc report`; count may be 0. */
void summary_write(FILE *out, struct stats_file *const *records, size_t count,
                   const struct launch_facts *launch, const struct summary_style *style);

/* The command, with the paths of the files as a shell reads them; a line. */
void summary_command(FILE *out, const char *command, struct stats_file *const *records,
                     size_t count);

/* The command without its folder where it is longer, and how many bytes of it to show: behind them
 * ".." stands for the rest, if there is one. */
size_t summary_shorten(const char **command, size_t columns);

/* The page that goes into a bug thread, to be freed; NULL: there is no memory for it. */
char *summary_text(struct stats_file *const *records, size_t count);

/* How the process ended, in words: "exit 0". */
struct figure summary_end(const struct stats_file *record);

/* " (PID)" of the program that lacked the memory; empty: a library of this one did, or nobody. */
struct figure asker_pid(const struct vramgc_action *action);

/* Below what is worth a reclaim there is nothing to read, either. */
bool is_small_reclaim(const struct vramgc_action *action);

/* The program's part of the host's memory, and what vramgc gave back; nothing where it had
 * little.
 */
enum { HOST_WORDS = 768 };
void host_words(struct text *text, const struct stats_file *record);
