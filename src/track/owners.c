/* owners.c: see owners.h. It must not copy a table where a top is reached: what belonged to an
 * owner then is kept when it changes for the first time afterwards. */
#include "track/owners.h"

/* A top is reached in one event: what the owner has before its next one it had then. */
static void keep_top(const struct owners *owners, struct owner *owner) {
    if (owner->top_seen == owners->tops)
        return;
    owner->top_seen = owners->tops;
    owner->top_bytes = owner->live_bytes;
    owner->top_blocks = owner->live_blocks;
}

/* A small block stands for those beside it that were not looked at. */
static uint64_t weight(uint64_t bytes) {
    return max_u64(bytes, NAMES_STEP_BYTES);
}

void owners_take(struct owners *owners, uint32_t tag, uint64_t bytes) {
    if (!tag)
        return;
    struct owner *owner = &owners->of[tag - 1];
    keep_top(owners, owner);
    owner->live_bytes += weight(bytes);
    owner->live_blocks++;
}

void owners_give(struct owners *owners, uint32_t tag, uint64_t bytes) {
    if (!tag)
        return;
    struct owner *owner = &owners->of[tag - 1];
    keep_top(owners, owner);
    owner->live_bytes -= weight(bytes);
    owner->live_blocks--;
    owner->low_bytes = min_u64(owner->low_bytes, owner->live_bytes);
}

/* Keeps the list in order, the largest first. Nobody has more than there is, whatever one block
 * stood for. */
static void enter(struct vramgc_owners *out, struct vramgc_owner entry) {
    entry.bytes = min_u64(entry.bytes, out->live_bytes);
    uint64_t place = out->count < VRAMGC_MAX_OWNERS ? out->count++ : VRAMGC_MAX_OWNERS;
    for (; place > 0 && out->list[place - 1].bytes < entry.bytes; place--)
        if (place < VRAMGC_MAX_OWNERS)
            out->list[place] = out->list[place - 1];
    if (place < VRAMGC_MAX_OWNERS)
        out->list[place] = entry;
}

/* A reader may look meanwhile: it sees a shorter list, or one entry twice. */
void owners_publish(const struct vramgc_owners *made, struct vramgc_owners *out) {
    __atomic_store_n(&out->count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&out->live_bytes, made->live_bytes, __ATOMIC_RELAXED);
    memcpy(out->list, made->list, sizeof out->list);
    __atomic_store_n(&out->count, made->count, __ATOMIC_RELEASE);
}

void owners_list_now(const struct owners *owners, uint64_t live_bytes, struct vramgc_owners *out) {
    struct vramgc_owners made = {.live_bytes = live_bytes};
    for (uint32_t i = 0; i < VRAMGC_MAX_SITES; i++)
        if (owners->of[i].live_bytes)
            enter(&made,
                  (struct vramgc_owner){i, 0, owners->of[i].live_bytes, owners->of[i].live_blocks});
    owners_publish(&made, out);
}

struct vramgc_owners owners_list_top(struct owners *owners, uint64_t live_bytes) {
    struct vramgc_owners made = {.live_bytes = owners->top_bytes};
    for (uint32_t i = 0; i < VRAMGC_MAX_SITES; i++) {
        struct owner *owner = &owners->of[i];
        keep_top(owners, owner);
        if (owner->top_bytes)
            enter(&made, (struct vramgc_owner){i, 0, owner->top_bytes, owner->top_blocks});
    }
    owners->top_bytes = live_bytes;
    owners->tops++;
    return made;
}

static void step_owner(struct owner *owner) {
    owner->earlier_bytes = owner->then_bytes;
    owner->then_bytes = owner->low_bytes;
    owner->low_bytes = owner->live_bytes;
}

/* Of all of them together, live_bytes is how much they grew. */
void owners_step(struct owners *owners, uint64_t turns, struct vramgc_owners *grown) {
    struct vramgc_owners made = {0};
    owners->next_turn = 2 * max_u64(turns, 1);
    for (uint32_t i = 0; i < VRAMGC_MAX_SITES; i++) {
        struct owner *owner = &owners->of[i];
        step_owner(owner);
        uint64_t more = minus_u64(owner->then_bytes, owner->earlier_bytes);
        made.live_bytes += more;
        if (more)
            enter(&made, (struct vramgc_owner){i, 0, more, owner->live_blocks});
    }
    owners_publish(&made, grown);
}

void owners_reset(struct owners *owners) {
    for (uint32_t i = 0; i < VRAMGC_MAX_SITES; i++) {
        struct owner *owner = &owners->of[i];
        keep_top(owners, owner);
        owner->live_bytes = owner->live_blocks = owner->low_bytes = 0;
    }
}
