/* verdict.h: what the figures mean for the person in front of the screen: what happened, why, what
 * to do, and who had the card; and one word for programs.
 *
 *     file --> tally.c    which out-of-memory is told, how many there were, who held most
 *          --> cause.c    struct oom, all figures of that one --table--> enum vramgc_cause
 *          --> facts.h    a set and words, of an out-of-memory by cause_words.c, else by tally.c
 *          --> sentences.c                                   --tables--> why, what to do, notes
 *          --> verdict.c  cause_names[cause].verdict is the word
 *
 * Each arrow goes one way: what a sentence needs to know is a fact, and no sentence is read. */
#pragma once

#include <stddef.h>

#include "base/text.h"
#include "read/stats_file.h"

enum verdict_kind {
    VERDICT_NONE,    /* no process used CUDA */
    VERDICT_UNKNOWN, /* memory was held, but no allocator of PyTorch was seen */
    VERDICT_OK,      /* nothing that mattered was refused, PyTorch held little idle memory */
    VERDICT_GROWS,   /* nothing was refused so far, but live memory or RAM grows */
    VERDICT_IDLE,    /* nothing was refused, but PyTorch held much */
    VERDICT_CRASHED, /* nothing was refused, and a signal of a fault, or SIGKILL, ended it */
    VERDICT_OOM,     /* memory ran out, of which the cause tells more */
    VERDICT_KINDS
};

/* Sentences, one space between them; "" where there is nothing to say. What happened, who had the
 * card then, why, what to do, and what else there is to know. */
struct verdict {
    enum verdict_kind kind;
    enum vramgc_cause oom; /* VERDICT_OOM; else UNKNOWN */
    size_t record; /* the one in which memory ran out, else whose devices together held most */
    bool ran_out;
    char what[512];
    size_t count;               /* where `what` says how often, up to the x: "12,480x"; ran out */
    size_t clock, clock_length; /* the bytes behind it that say when: ", last at 1:09" */
    char sum[320];
    char cause[480];
    char todo[768];
    char most[400]; /* who had most of what was live, where it is known by name */
    char note[1000];
};

/* The record that the verdict is of, alone. */
size_t verdict_record(struct stats_file *const *records, size_t count);

/* Of the run that this record belongs to. */
struct verdict verdict_of(struct stats_file *const *records, size_t count);

/* All of it in one paragraph. */
void verdict_write(struct text *text, const struct verdict *verdict);

/* "ok", or of an out-of-memory what its cause is called: "fragmentation". */
const char *verdict_name(const struct verdict *verdict);

/* Highest held bytes of all devices of the record, added up. */
double stats_file_held_peak(const struct stats_file *record);
