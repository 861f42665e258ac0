/* cause.h: what an out-of-memory was: who had the card, and why the request did not fit. It finds
 * out and says nothing; cause_words.c puts it into words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "judge/facts.h"
#include "judge/growers.h"
#include "read/stats_file.h"

/* A row of causes.def. */
struct cause_names {
    const char *seen, *granted, *name, *verdict;
};
extern const struct cause_names cause_names[VRAMGC_CAUSES];

/* From what the library saw, and what the file tells besides, to the cause: the first row that
 * fits. */
struct cause_row {
    struct when when;
    enum vramgc_cause cause;
};
extern const struct cause_row cause_rows[];
extern const size_t cause_row_count;

/* Who had the memory of the card; the parts add up to total_bytes. */
struct oom_sum {
    bool known;
    uint64_t live_bytes, idle_bytes, code_bytes;
    uint64_t step_bytes; /* beside these: kept by other code for the tensors of a model's step */
    uint64_t neighbour_bytes[VRAMGC_MAX_NEIGHBOURS]; /* of those in the device's list */
    uint64_t neighbour_count;
    uint64_t others_bytes;   /* of these together; where none is known, with the driver's own */
    uint64_t rest_bytes;     /* the driver, and processes that are not known */
    uint64_t headroom_bytes; /* free, and kept for others */
    uint64_t free_bytes, total_bytes;
};

struct oom {
    const struct stats_file *record;
    const struct vramgc_refusal *refusal;
    const struct vramgc_device *device;
    enum vramgc_cause cause;
    uint32_t seen; /* as the library saw it, but that a full card is full */
    struct oom_sum sum;
    struct oom_growth growth;
    uint64_t lacking_bytes; /* of the request, beside what was free and idle */
    uint64_t stayed_bytes;  /* more is live at rest than after the first job, enough; or 0 */
    const struct vramgc_refusal *first_error; /* in an earlier job: more than before it; or NULL */
    uint64_t kept_bytes;             /* by private pools of PyTorch's, without a block in it */
    const struct vramgc_owner *row;  /* see growers_row; NULL: none */
    const struct vramgc_owner *pile; /* that row, where it is most of what is live */
    struct oom_part load;            /* see load_at */
    uint64_t earlier_bytes;          /* of the loader, from before: enough, else 0 */
    struct oom_part failed; /* of a try that had failed just before, still live, and enough */
    struct oom_part stale;  /* of work that left it and was no job, though the program rested */
    struct oom_part left;   /* more at rest after the job of the error than before it: whose most */
    bool at_once;           /* that try was another thread's: all that the function has */
    bool retried;           /* it asked as much in the same function */
    uint64_t tries;         /* errors of a search for what fits, which it found; 0: no such */
    bool optimizer;         /* it was making tensors as large as the weights */
    bool of_aimdo;          /* most of what other code held was comfy-aimdo's: DynamicVRAM */
    bool of_context;        /* there was no room for the device's context */
    bool of_cuda;           /* nobody asked for memory: CUDA needed some for itself */
    bool of_pytorch;        /* or not known; else others than PyTorch's cache asked */
};

struct oom oom_of(const struct stats_file *record, const struct vramgc_refusal *refusal);

/* Idle memory is told beside what was free: what lacks is beyond both. */
static inline bool oom_tells_idle(const struct oom *oom) {
    return oom->lacking_bytes && oom->refusal->idle_bytes > oom->refusal->request_bytes / 16;
}

/* The function that asked is part of that phase. */
bool oom_asked_in(const struct oom *oom, const char *phase);

/* The program did something after the error. */
bool oom_program_went_on(const struct oom *oom);

/* The report counts the refusal among the errors of the one that it tells of: where PyTorch has
 * told of errors, a refusal to other code is none. */
bool is_told_with(const struct oom *told, const struct vramgc_refusal *refusal);

/* A card that is full by a step of PyTorch's is full, too: it has that cause's words. */
static inline enum vramgc_cause cause_as_told(enum vramgc_cause cause) {
    return cause == VRAMGC_CAUSE_ROUNDED ? VRAMGC_CAUSE_FULL : cause;
}

/* Why it was refused, in the list of refusals. */
const char *refusal_why(const struct stats_file *record, const struct vramgc_refusal *refusal);
