/* verdict.h: what the figures mean for the person in front of the screen: what happened, why, what
 * to do, and who had the card; and one word for programs. */
#pragma once

#include <stddef.h>

#include "base/text.h"
#include "read/stats_file.h"

enum verdict_code {
    VERDICT_NONE,          /* no process used CUDA */
    VERDICT_UNKNOWN,       /* memory was held, but no allocator of PyTorch was seen */
    VERDICT_OK,            /* nothing that mattered was refused, PyTorch held little idle memory */
    VERDICT_GROWS,         /* nothing was refused so far, but live memory or RAM grows */
    VERDICT_IDLE,          /* nothing was refused, but PyTorch held much */
    VERDICT_FRAGMENTATION, /* refused although free and idle memory would have sufficed */
    VERDICT_FULL,          /* refused because memory was lacking */
    VERDICT_LIMIT,         /* PyTorch was out of memory without asking for any */
    VERDICT_POOL,          /* and so on as enum oom_cause */
    VERDICT_PRIVATE,
    VERDICT_GROWTH,
    VERDICT_PROCESS,
    VERDICT_CODE,
    VERDICT_TOO_LARGE,
    VERDICT_DRIVER,
    VERDICT_HOST,
    VERDICT_CRASHED, /* nothing was refused, and a signal of a fault, or SIGKILL, ended it */
    VERDICT_CODES
};

/* Memory ran out, whatever the cause. */
static inline bool verdict_is_oom(enum verdict_code code) {
    return code >= VERDICT_FRAGMENTATION && code <= VERDICT_HOST;
}

/* Sentences, one space between them; "" where there is nothing to say. What happened, who had the
 * card then, why, what to do, and what else there is to know. */
struct verdict {
    enum verdict_code code;
    size_t record; /* the one in which memory ran out, else whose devices together held most */
    bool ran_out;
    char what[512];
    size_t count;               /* where `what` says how often, up to the x: "12,480x"; ran out */
    size_t clock, clock_length; /* the bytes behind it that say when: ", last at 1:09" */
    char sum[320];
    char cause[480];
    char todo[768];
    char most[240]; /* who had most of what was live, where it is known by name */
    char note[1000];
};

/* The record that the verdict is of, alone. */
size_t verdict_record(struct stats_file *const *records, size_t count);

/* Of the run that this record belongs to. */
struct verdict verdict_of(struct stats_file *const *records, size_t count);

/* All of it in one paragraph. */
void verdict_write(struct text *text, const struct verdict *verdict);

/* "ok", ... */
const char *verdict_name(enum verdict_code code);

/* Highest held bytes of all devices of the record, added up. */
double stats_file_held_peak(const struct stats_file *record);
