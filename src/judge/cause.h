/* cause.h: what an out-of-memory was: who had the card, and why the request did not fit. It finds
 * out and says nothing; cause_words.c puts it into words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "judge/growers.h"
#include "read/stats_file.h"

enum oom_cause {
    CAUSE_UNKNOWN,
    CAUSE_FRAGMENTATION, /* free and idle memory would have sufficed */
    CAUSE_POOL,          /* the same, and the driver's pool kept it */
    CAUSE_PRIVATE,   /* what a private pool keeps, as of a captured graph, would have sufficed */
    CAUSE_SMALL,     /* live memory fills the card */
    CAUSE_ROUNDED,   /* only the last step of an expandable segment did not fit */
    CAUSE_GROWTH,    /* what stays live grows, time after time */
    CAUSE_PROCESS,   /* without another process it would have fitted */
    CAUSE_CODE,      /* without other code in this process */
    CAUSE_TOO_LARGE, /* the request is larger than the card */
    CAUSE_DRIVER,    /* refused although free */
    CAUSE_LIMIT,     /* PyTorch did not ask the driver */
    CAUSE_RESERVED,  /* the card had it, but VRAMGC_HEADROOM or VRAMGC_CAP kept it */
    CAUSE_HOST,      /* of the host's memory */
    CAUSES
};

/* Who had the memory of the card; the parts add up to total_bytes. */
struct oom_sum {
    bool known;
    uint64_t live_bytes, idle_bytes, code_bytes;
    uint64_t step_bytes; /* beside these: kept by other code for the tensors of a model's step */
    uint64_t neighbour_bytes[VRAMGC_MAX_NEIGHBOURS]; /* of those in the device's list */
    uint64_t neighbour_count;
    uint64_t rest_bytes;     /* the driver, and processes that are not known */
    uint64_t headroom_bytes; /* free, and kept for others */
    uint64_t free_bytes, total_bytes;
};

struct oom {
    const struct stats_file *record;
    const struct vramgc_refusal *refusal;
    const struct vramgc_device *device;
    enum oom_cause cause;
    struct oom_sum sum;
    struct oom_growth growth;
    uint64_t lacking_bytes; /* of the request, beside what was free and idle */
    uint64_t stayed_bytes;  /* more is live at rest than after the first job, enough; or 0 */
    uint64_t kept_bytes;    /* by private pools of PyTorch's, without a block in it */
    const struct vramgc_owner *pile; /* see growers_pile; NULL: none */
    bool of_aimdo;   /* most of what other code held was comfy-aimdo's: DynamicVRAM */
    bool of_context; /* there was no room for the device's context */
    bool of_pytorch; /* or not known; else others than PyTorch's cache asked */
};

struct oom oom_of(const struct stats_file *record, const struct vramgc_refusal *refusal);

/* Whether the program did anything after the error. */
bool oom_program_went_on(const struct oom *oom);

/* Whether the report counts the refusal among the errors of the one that it tells of: where PyTorch
 * has told of errors, a refusal to other code is none. */
bool is_told_with(const struct oom *told, const struct vramgc_refusal *refusal);

/* Of other processes together; where none is known by name, with the driver's own. */
uint64_t oom_others_bytes(const struct oom_sum *sum);

/* As other texts name it: "another process". What is told as another cause has that one's name. */
enum oom_cause cause_as_told(enum oom_cause cause);
const char *cause_name(enum oom_cause cause);
