/* report_fields.h: says what a report contains, once for JSON, schema, the long text and the
 * arguments of a trace. The fields are those of fields.def. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "read/emit.h"
#include "read/stats_file.h"

enum { REPORT_SCHEMA = 1 };

/* The launcher knows it, and the files do not. */
struct launch_facts {
    const char *run_id;
    const char *command; /* arguments separated by one space */
    int wait_status;     /* of the command */
    bool interrupted;    /* SIGINT was seen */
    uint64_t elapsed_ns;
};

/* launch is NULL for `vramgc report`. */
void report_fields_write(FILE *out, enum emit_format format, struct stats_file *const *records,
                         size_t count, const struct launch_facts *launch);

/* The schema of the above. False when there is no memory. */
bool report_fields_schema(FILE *out);

/* ---- for a trace, and for metrics ---- */

struct record_type {
    const char *list, *help, *help_of_one;
    /* Into an object that is open. record: a struct vramgc_action for action_type, ... */
    void (*write)(struct emit *emit, const struct vramgc_file *file, const void *record);
    size_t entries, count; /* where struct stats_file lists them, if it does */
};

extern const struct record_type action_type, refusal_type, mark_type, job_type, neighbour_type,
    owner_type, who_type, site_type, frame_type, setting_type, hook_type;

/* The fields that are named, separated by commas, in that order, as emit->only says. */
void record_columns(struct emit *emit, const struct record_type *type, const char *names,
                    const struct vramgc_file *file, const void *record);

/* Figures of the host's memory at a look, as everybody calls them. */
struct host_figure {
    const char *name, *help;
    size_t offset; /* in struct vramgc_host_look */
    bool none_is_0;
};

enum { HOST_FIGURES = 8 };
extern const struct host_figure host_figures[HOST_FIGURES];
uint64_t host_figure(const struct host_figure *figure, const struct vramgc_host_look *look);
