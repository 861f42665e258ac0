/* owners.h: how much live memory belongs to whom (the sites of the statistics file, and the calls
 * of them): now, at the highest that live memory was since the latest look, and what stays with
 * each time after time. On the way of block events: each of these takes constant time but where a
 * list is written. Pure; one thread at a time. */
#pragma once

#include "base/base.h"
#include "python/names.h"
#include "vramgc_format.h"

struct owner {
    uint64_t live_bytes, live_blocks;
    uint64_t top_bytes, top_blocks; /* at top number top_seen; else what is live */
    uint64_t top_seen;
    uint64_t low_bytes;                 /* the least since the latest step of growth */
    uint64_t earlier_bytes, then_bytes; /* the same of the two steps before it */
};

/* All zero at first. */
struct owners {
    uint64_t top_bytes; /* the highest that all live memory was since the top was last listed */
    uint64_t tops;      /* how often it became that: the number of the latest */
    uint64_t next_turn; /* when the next step of growth begins */
    uint32_t site_count, call_count; /* so many of these have ever had something */
    struct owner of[VRAMGC_MAX_SITES];
    struct owner of_call[VRAMGC_MAX_CALLS]; /* the same memory again */
};

/* A block that it was given, or has given back. The tag is kept with the block, and says who it is
 * as names_caller does; 0: no owner is known. */
void owners_take(struct owners *owners, uint32_t tag, uint64_t bytes);
void owners_give(struct owners *owners, uint32_t tag, uint64_t bytes);

/* All live memory has become so much: a new top. */
static inline void owners_note_top(struct owners *owners, uint64_t live_bytes) {
    if (LIKELY(live_bytes <= owners->top_bytes))
        return;
    owners->top_bytes = live_bytes;
    owners->tops++;
}

/* Live memory has turned that often (growth.h). A step of growth begins when that has doubled:
 * then the list of what grew between the two before it is written. */
void owners_step(struct owners *owners, uint64_t turns, struct vramgc_owners *grown);
static inline void owners_note_turns(struct owners *owners, uint64_t turns,
                                     struct vramgc_owners *grown) {
    if (UNLIKELY(turns >= owners->next_turn))
        owners_step(owners, turns, grown);
}

/* The largest owners, and the largest calls of any: now; and at the top, whose search begins anew
 * with what is live now. */
struct owners_lists {
    struct vramgc_owners sites, calls;
};
void owners_list_now(const struct owners *owners, uint64_t live_bytes, struct owners_lists *out);
void owners_list_top(struct owners *owners, uint64_t live_bytes, struct owners_lists *out);

/* Into the file, where somebody may read. */
void owners_publish(const struct vramgc_owners *made, struct vramgc_owners *out);

/* The device was reset: nothing is live. */
void owners_reset(struct owners *owners);
