/* reclaim.c: see reclaim.h. It must decide nothing: policy/policy.h does. */
#include "govern/reclaim.h"

#include "card/threshold.h"
#include "track/free_memory.h"
#include "track/process_state.h"
#include "track/stream.h"

static struct { struct reclaim devices[VRAMGC_MAX_DEVICES]; } self;
CHILD_OPENS_EACH(self.devices);

struct reclaim *reclaim_of(const struct device *device) {
    return &self.devices[device_index(device)];
}

bool reclaim_is_below_threshold(const struct device *device) {
    uint64_t total = atomic_load_explicit(&device->memory.total_bytes, memory_order_relaxed);
    return !card_is_above(settings_options()->threshold, total, device_used_bytes(device));
}

bool reclaim_need_not_wait(struct device *device) {
    CUcontext context = __atomic_load_n(&device->context, __ATOMIC_RELAXED);
    return !context || vm_is_past(&reclaim_of(device)->past, context, capture_active);
}

bool reclaim_enter(const struct device *device) {
    real_cuCtxSetCurrent_t set_current = REAL(cuCtxSetCurrent);
    CUcontext context = __atomic_load_n(&device->context, __ATOMIC_RELAXED);
    return context && set_current && set_current(context) == CUDA_SUCCESS;
}

/* Its events are gone with the context. */
void reclaim_reset(const struct device *device) {
    reclaim_of(device)->past = (struct vm_past){0};
}

void reclaim_acted(struct device *device) {
    struct reclaim *reclaim = reclaim_of(device);
    struct policy_settings settings = settings_policy();
    LOCKED(&reclaim->lock);
    policy_acted(&settings, &reclaim->policy, clock_ns());
}

void reclaim_note_held(struct device *device, struct vramgc_action *action,
                       uint64_t held_before_bytes) {
    uint64_t held = figure_get(&device->out->stats.held_bytes.current);
    uint64_t gained = minus_u64(action->before_bytes, action->after_bytes);
    action->net_bytes = min_u64(gained, minus_u64(held_before_bytes, held));
    action->held_bytes = held;
}

void reclaim_conclude(struct device *device, const struct vramgc_action *finished) {
    struct vramgc_device_stats *stats = &device->out->stats;
    struct vramgc_action copy = *finished, *action = &copy;
    uint64_t gained = minus_u64(action->before_bytes, action->after_bytes);
    uint64_t held = figure_get(&stats->held_bytes.current);
    action->net_bytes = action->observed ? 0 : gained;
    action->held_bytes = action->observed ? minus_u64(held, gained) : held;
    store_action(action);
    if (action->observed) {
        figure_add(&stats->would_reclaims, 1);
        return;
    }
    figure_add(&stats->reclaims, 1);
    figure_add(&stats->reclaimed_bytes, gained);
    figure_add(&stats->reclaim_ns, action->took_ns);
    if (action->kind == VRAMGC_ACTION_TRIM)
        figure_add(&stats->pool_trims, 1);
    if (action->kind == VRAMGC_ACTION_FLUSH)
        figure_add(&stats->flushes, 1);
    if (action->kind == VRAMGC_ACTION_SOFT_OOM)
        figure_add(&stats->soft_ooms, 1);
}

void reclaim_forget(void) {
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++)
        atomic_store(&self.devices[i].past.taken, 0);
}
