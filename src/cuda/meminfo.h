/* meminfo.h: what the driver says that the current device has left, and how long that will do. All
 * of this library that reads the card does it by this file. */
#pragma once

#include "base/base.h"
#include "cuda/cuda_api.h"

/* When a reading ended, and what readings cost by then. All zero: there is none. */
struct meminfo_age {
    uint64_t end_ns, cost_ns;
    bool beside; /* memory of this process came or went meanwhile: it may be off by that */
};

/* free_bytes and total_bytes are the program's (limit.h). */
struct meminfo {
    size_t free_bytes, total_bytes;
    struct meminfo_age age;
    int64_t spare_bytes;     /* as free_bytes; less than 0: the process has more than it may */
    uint64_t limited_bytes;  /* free on the card, but not for this process */
    uint64_t headroom_bytes; /* of them, kept for others */
};

/* For what a reading is wanted: for a decision that the driver corrects where it was wrong; for an
 * answer to the program, which has to be refused or told something; to be made in any case. */
enum meminfo_need { MEMINFO_KNOWN, MEMINFO_ANSWER, MEMINFO_ANEW };

/* Asks the driver. The answer of the call. */
CUresult meminfo_read(struct meminfo *reading);

/* What the driver has said of free and total becomes what the program is told. */
void meminfo_limit(struct meminfo *reading);

/* Of a reading that was begun then and has just ended. */
struct meminfo_age meminfo_age(uint64_t start_ns);

/* Whether one of that age will do: made beside others' calls it is no answer, however young. */
bool meminfo_will_do(struct meminfo_age age, enum meminfo_need need);
