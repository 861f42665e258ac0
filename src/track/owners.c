/* owners.c: see owners.h. It must keep a run of any length in the slots that there are, and not
 * copy a table where a top is reached: what belonged to an owner then is kept when it changes for
 * the first time afterwards. */
#include "track/owners.h"

#include "store/store.h"

/* --- floors --- */

/* A reader may look meanwhile: it sees an older floor at worst. */
static void halve(struct vramgc_floors *out) {
    for (size_t i = 0; i < VRAMGC_MAX_FLOORS / 2; i++)
        figure_set(&out->bytes[i], min_u64(out->bytes[2 * i], out->bytes[2 * i + 1]));
    figure_set(&out->count, VRAMGC_MAX_FLOORS / 2);
    figure_set(&out->merged, out->merged * 2);
}

void floors_add(struct vramgc_floors *out, uint64_t bytes) {
    if (!out->merged)
        figure_set(&out->merged, 1);
    uint64_t place = out->turns % out->merged;
    if (place == 0 && out->count == VRAMGC_MAX_FLOORS) {
        halve(out);
        place = out->turns % out->merged;
    }
    if (place == 0) {
        figure_set(&out->bytes[out->count], bytes);
        figure_set(&out->count, out->count + 1);
    } else {
        uint64_t *latest = &out->bytes[out->count - 1];
        figure_set(latest, min_u64(*latest, bytes));
    }
    figure_set(&out->turns, out->turns + 1);
}

void growth_floor(struct growth *growth, struct vramgc_floors *out) {
    floors_add(out, growth->lowest_bytes);
    growth->freed_bytes = 0;
}

/* --- owners --- */

/* A top is reached in one event: what the owner has before its next one it had then. */
static void keep_top(const struct owners *owners, struct owner *owner) {
    if (owner->top_seen == owners->tops)
        return;
    owner->top_seen = owners->tops;
    owner->top_bytes = owner->live_bytes;
    owner->top_blocks = owner->live_blocks;
}

/* A small block stands for those beside it that were not looked at. */
static uint64_t block_weight(uint64_t bytes) {
    return max_u64(bytes, NAMES_STEP_BYTES);
}

static void take_owner(const struct owners *owners, struct owner *owner, uint64_t bytes) {
    keep_top(owners, owner);
    owner->live_bytes += block_weight(bytes);
    owner->taken_bytes += bytes;
    owner->live_blocks++;
}

static void give_owner(const struct owners *owners, struct owner *owner, uint64_t bytes) {
    keep_top(owners, owner);
    owner->live_bytes -= block_weight(bytes);
    owner->live_blocks--;
    owner->low_bytes = min_u64(owner->low_bytes, owner->live_bytes);
}

void owners_take(struct owners *owners, uint32_t tag, uint64_t bytes) {
    uint32_t site = names_site(tag), call = names_call(tag);
    owners->site_count = (uint32_t)max_u64(owners->site_count, site);
    owners->call_count = (uint32_t)max_u64(owners->call_count, call);
    if (site)
        take_owner(owners, &owners->of[site - 1], bytes);
    if (call)
        take_owner(owners, &owners->of_call[call - 1], bytes);
}

void owners_give(struct owners *owners, uint32_t tag, uint64_t bytes) {
    uint32_t site = names_site(tag), call = names_call(tag);
    if (site)
        give_owner(owners, &owners->of[site - 1], bytes);
    if (call)
        give_owner(owners, &owners->of_call[call - 1], bytes);
}

/* Keeps the list in order, the largest first. Nobody has more than there is, whatever one block
 * stood for. */
static void insert_owner(struct vramgc_owners *out, struct vramgc_owner entry) {
    const uint64_t most = VRAMGC_MAX_OWNERS;
    entry.bytes = min_u64(entry.bytes, out->live_bytes);
    uint64_t place = out->count < most ? out->count++ : most;
    for (; place > 0 && out->list[place - 1].bytes < entry.bytes; place--)
        if (place < most)
            out->list[place] = out->list[place - 1];
    if (place < most)
        out->list[place] = entry;
}

/* A reader may look meanwhile: it sees a shorter list, or one entry twice. */
void owners_publish(const struct vramgc_owners *made, struct vramgc_owners *out) {
    __atomic_store_n(&out->count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&out->live_bytes, made->live_bytes, __ATOMIC_RELAXED);
    memcpy(out->list, made->list, sizeof out->list);
    __atomic_store_n(&out->count, made->count, __ATOMIC_RELEASE);
}

static void list_owners_of(const struct owners *owners, const struct owner *of, uint32_t count,
                           bool top, struct vramgc_owners *out) {
    for (uint32_t i = 0; i < count; i++) {
        bool then = top && of[i].top_seen == owners->tops;
        uint64_t bytes = then ? of[i].top_bytes : of[i].live_bytes;
        uint64_t blocks = then ? of[i].top_blocks : of[i].live_blocks;
        if (bytes)
            insert_owner(out, (struct vramgc_owner){i, 0, bytes, blocks});
    }
}

static void list(const struct owners *owners, bool top, uint64_t live_bytes,
                 struct owners_lists *out) {
    out->sites = out->calls = (struct vramgc_owners){.live_bytes = live_bytes};
    list_owners_of(owners, owners->of, owners->site_count, top, &out->sites);
    list_owners_of(owners, owners->of_call, owners->call_count, top, &out->calls);
}

void owners_list_now(const struct owners *owners, uint64_t live_bytes, struct owners_lists *out) {
    list(owners, false, live_bytes, out);
}

void owners_list_top(struct owners *owners, uint64_t live_bytes, struct owners_lists *out) {
    list(owners, true, owners->top_bytes, out);
    owners->top_bytes = live_bytes;
    owners->tops++;
}

/* Of all of them together, live_bytes is how much they grew. */
void owners_step(struct owners *owners, uint64_t turns, struct vramgc_owners *grown) {
    struct vramgc_owners made = {0};
    owners->next_turn = 2 * max_u64(turns, 1);
    for (uint32_t i = 0; i < owners->site_count; i++) {
        struct owner *owner = &owners->of[i];
        owner->earlier_bytes = owner->then_bytes;
        owner->then_bytes = owner->low_bytes;
        owner->low_bytes = owner->live_bytes;
        uint64_t more = minus_u64(owner->then_bytes, owner->earlier_bytes);
        made.live_bytes += more;
        if (more)
            insert_owner(&made, (struct vramgc_owner){i, 0, more, owner->live_blocks});
    }
    owners_publish(&made, grown);
}

static void reset(const struct owners *owners, struct owner *of, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        keep_top(owners, &of[i]);
        of[i].live_bytes = of[i].live_blocks = of[i].low_bytes = 0;
    }
}

void owners_reset(struct owners *owners) {
    reset(owners, owners->of, owners->site_count);
    reset(owners, owners->of_call, owners->call_count);
}
