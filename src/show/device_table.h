/* device_table.h: one card as rows: who had it, and the allocator's figures, at the peak, at the
 * out-of-memory and at the end. Terminal, Markdown and HTML show the same rows; as text with the
 * graph below. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "judge/who.h"
#include "read/stats_file.h"
#include "read/units.h"
#include "base/text.h"

enum { DEVICE_ROWS = 32 };

enum row_group {
    ROWS_OF_CARD,      /* they add up to the card */
    ROWS_OF_ALLOCATOR, /* PyTorch's, each figure at its own peak */
    ROWS_BESIDE,       /* what other code has */
};

struct device_row {
    enum row_group group;
    bool is_detail; /* for who wants to know all */
    char label[48];
    struct figure peak, then, last;
};

struct device_table {
    bool has_refusal; /* false: no column of figures at the out-of-memory */
    bool went_on;     /* as the alerts have it: that was none, for the work went on without */
    const char *then; /* the head of that column, where there is room */
    const char *last; /* the head of the last column: of which moment its figures are */
    char gone[80];    /* a sentence: that these are no leak; empty: there is nothing to say */
    size_t count;
    struct device_row rows[DEVICE_ROWS];
};

void device_rows(const struct stats_file *record, size_t index, struct device_table *table);

/* For whoever shows no table. */
const char *device_then(const struct stats_file *record, size_t index);

/* With cudaMallocAsync PyTorch itself counts no out-of-memory, and its hooks tell of none: "-". */
struct figure show_ooms(const struct vramgc_file *file, uint64_t ooms);

enum { REFUSED_WORDS = 160 };

/* How many requests of the card were refused, and what became of them. */
void device_say_refused(struct text *text, const struct stats_file *record, size_t index);

/* Those of the program, and in mode compact those that vramgc made in their place. */
uint64_t all_driver_calls(const struct vramgc_device_stats *stats);

/* all: with what only few want to know. */
void device_table_write(FILE *out, const struct stats_file *record, size_t index, bool all);

/* ---- whose its live memory was, as text ---- */

/* As who_name, shortened to so many columns where that is possible. */
struct who_name summary_who_name(const struct vramgc_site *site, size_t columns);

/* Whose live memory was; nothing where no owner is known. all: SIZE_MAX. */
void summary_who(FILE *out, const struct stats_file *record, size_t most_rows);
