/* emit.h: one way to say what a report contains, four ways to write it: as JSON, as the JSON schema
 * of that, as lines of text, and as a pickle. The code that describes a report
 * calls these functions once; the schema therefore cannot differ from the output. Nothing here
 * knows what is described. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "read/units.h"

/* A pickle is Python's (protocol 2), of numbers and texts, with none but the opcodes that PyTorch's
 * memory_viz reads. */
enum emit_format { EMIT_JSON, EMIT_SCHEMA, EMIT_TEXT, EMIT_PICKLE };

/* The report has 8 levels, and 76 names in the largest of them (schema.json). */
enum { EMIT_DEPTH = 12, EMIT_NAMES = 96 };

/* One object or array that is being written. */
struct emit_level {
    bool is_array;
    bool inline_items;             /* JSON: all on one line */
    size_t count;                  /* members so far */
    const char *names[EMIT_NAMES]; /* of the members, for the schema's "required" */
};

struct emit {
    FILE *out;
    enum emit_format format;
    /* While it is set no member is written but the one of that name (up to a comma), and for
     * another program: it gets no null, and "unknown" for an unknown text. */
    const char *only;
    size_t depth;
    struct emit_level levels[EMIT_DEPTH];
};

/* Opens and closes the outermost object. help becomes the schema's description. */
void emit_begin(struct emit *emit, FILE *out, enum emit_format format, const char *help);
void emit_end(struct emit *emit);

/* In all of the following, name is NULL for items of an array, and help may be "". */
void emit_open(struct emit *emit, const char *name, const char *help);
void emit_open_line(struct emit *emit, const char *name, const char *help); /* JSON: one line */
void emit_close(struct emit *emit);

/* An array of `count` objects: returns how many the caller must now describe, which for a schema is
 * always one, so that item 0 must be readable even when count is 0. Ends with emit_close(). */
size_t emit_list(struct emit *emit, const char *name, const char *help, size_t count);

void emit_number(struct emit *emit, const char *name, enum unit unit, const char *help,
                 uint64_t value);
void emit_number_if(struct emit *emit, const char *name, enum unit unit, const char *help,
                    bool known, uint64_t value);
void emit_real_if(struct emit *emit, const char *name, const char *help, bool known, double value);
void emit_bool(struct emit *emit, const char *name, const char *help, bool value);

/* Text must be UTF-8 without control characters. NULL or, as the file has it, "": not known. */
void emit_text(struct emit *emit, const char *name, const char *help, const char *text);

/* A text that may be empty. */
void emit_label(struct emit *emit, const char *name, const char *help, const char *text);

/* An array of numbers on one line: entry i is *(uint64_t *)(first + i * stride). */
void emit_numbers(struct emit *emit, const char *name, const char *help, const void *first,
                  size_t stride, size_t count);
