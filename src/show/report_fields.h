/* report_fields.h: says what a report contains, field by field, once for JSON, schema and the long
 * text. Fields are added; within one REPORT_SCHEMA none is renamed, removed or given another
 * meaning. */
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
