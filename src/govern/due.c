/* due.c: see due.h. Only our own thread may come here: it waits for the GIL, and for the GPU where
 * somebody asked for memory. */
#include "govern/due.h"

#include "base/process_stat.h"
#include "base/text.h"
#include "govern/decay_thread.h"
#include "govern/peer_programs.h"
#include "govern/python.h"
#include "govern/reclaim.h"
#include "govern/trim.h"
#include "python/names.h"
#include "track/event_log.h"
#include "track/free_memory.h"
#include "track/mempool.h"
#include "track/process_state.h"
#include "track/stream.h"

/* Who asked for memory (vramgc_reclaim, or a library of the program's) waits for the GPU a fifth of
 * what a user notices, 0.1 s. */
enum { GPU_PATIENCE = 20 };

void due_read_memory(struct device *device) {
    if (!reclaim_enter(device))
        return;
    mempool_look(device); /* first: what a pool keeps is not others' */
    device_read_memory(device);
}

/* As far as the GPU has finished with it. The device's context is current. */
static uint64_t reclaim(struct device *device) {
    struct vm *vm = device_vm(device);
    uint64_t given = vm ? vm_reclaim(vm, UINT64_MAX) : 0;
    device_account_pages(device);
    return given;
}

/* Mode compact: needs neither PyTorch nor Python. The GPU may not have finished with all pages: it
 * is asked a few times, and the rest is left for the next rest. */
static bool give_back_pages(struct device *device, struct vramgc_action action) {
    const uint64_t *physical = &device->out->stats.page_bytes.current;
    struct timespec pause = {0, (long)MILLISECOND_NS};
    uint64_t start = clock_ns(), given = 0;
    action.kind = VRAMGC_ACTION_PAGES;
    action.before_bytes = figure_get(physical);
    action.after_bytes = minus_u64(action.before_bytes, device_idle_page_bytes(device));
    for (int i = 0; i < GPU_PATIENCE && !action.observed; i++) {
        given += reclaim(device);
        reclaim_credit(&action, figure_get(physical), given);
        if (!device_idle_page_bytes(device) || capture_active())
            break;
        nanosleep(&pause, NULL);
    }
    action.took_ns = clock_ns() - start;
    reclaim_conclude(device, &action);
    return true;
}

static uint64_t reserved_bytes(const struct device *device) {
    return figure_get(&device->out->stats.reserved_bytes.current);
}

/* PyTorch empties the cache of all devices: each that got something back is told of. */
static void conclude_flush(struct device *asked, const struct vramgc_action first,
                           const uint64_t returned_before[VRAMGC_MAX_DEVICES]) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        uint64_t returned = device ? reclaim_returned_bytes(device) - returned_before[i] : 0;
        if (!device || (device != asked && !returned))
            continue;
        if (device_vm(device) && !returned) { /* addresses */
            figure_add(&device->out->stats.flushes, 1);
            reclaim_acted(device);
            continue;
        }
        struct vramgc_action action = first;
        action.device = i;
        action.used_bytes = device == asked ? first.used_bytes : device_used_bytes(device);
        reclaim_credit(&action, reserved_bytes(device), returned);
        reclaim_conclude(device, &action);
        reclaim_acted(device);
    }
}

struct flushing {
    const struct device *device;
    bool asked;
    uint64_t least_bytes; /* with less to gain it is let be */
    uint64_t begun_ns;    /* when we had the GIL: while we wait for it the program works */
};

/* PyTorch empties the cache of all devices. */
static bool would_wait(void) {
    bool waits = false;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        waits = waits || (device_if_ready(i) && !reclaim_need_not_wait(device_if_ready(i)));
    return waits;
}

/* PyTorch up to 2.14 waits for the current device only, and then unmaps what the others work on. */
static bool all_finish(const struct device *asked) {
    real_cuCtxSynchronize_t synchronize = REAL(cuCtxSynchronize);
    bool over = synchronize;
    for (unsigned i = 0; over && i < VRAMGC_MAX_DEVICES; i++)
        if (device_if_ready(i) && reclaim_enter(device_if_ready(i)))
            over = synchronize() == CUDA_SUCCESS;
    reclaim_enter(asked);
    return over;
}

/* We have waited for the GIL: meanwhile what was idle may have come into use. */
static bool must_not_flush(void *context) {
    struct flushing *flushing = context;
    flushing->begun_ns = clock_ns();
    bool must_not = capture_active() || (!flushing->asked && would_wait()) ||
                    device_releasable_bytes(flushing->device) < flushing->least_bytes ||
                    !all_finish(flushing->device);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES && !must_not; i++)
        if (device_if_ready(i))
            decay_flush_begins(device_if_ready(i));
    return must_not;
}

/* Has PyTorch empty its cache, through Python. Whether anything was done. */
static bool flush(struct device *device, struct vramgc_action action) {
    uint64_t returned[VRAMGC_MAX_DEVICES] = {0};
    int tries = action.reason == VRAMGC_REASON_REFUSED ? GPU_PATIENCE : 1;
    bool asked = action.reason == reclaim_log_reason(POLICY_ASKED);
    uint64_t least_bytes = *action.asker_name ? 1 : settings_standards()->min_gain_bytes;
    struct flushing flushing = {device, asked, asked ? 0 : least_bytes, 0};
    action.kind = VRAMGC_ACTION_FLUSH;
    if (action.observed) {
        action.before_bytes = reserved_bytes(device);
        action.after_bytes = minus_u64(action.before_bytes,
                                       figure_get(&device->out->stats.releasable_bytes.current));
        reclaim_conclude(device, &action);
        return true;
    }
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        returned[i] = device_if_ready(i) ? reclaim_returned_bytes(device_if_ready(i)) : 0;
    while (!python_empty_cache(must_not_flush, &flushing)) {
        if (--tries == 0)
            return false;
        sleep_ns(MILLISECOND_NS);
    }
    names_describe(names_latest(), &action);
    action.took_ns = clock_ns() - flushing.begun_ns;
    conclude_flush(device, action, returned);
    return true;
}

/* Another process or a library (1 + its index), which have no right to have this process wait for
 * the GPU; 0: none. */
static struct vramgc_action asked_by(uint64_t asker, unsigned library) {
    struct vramgc_action action = {.asker = asker, .reason = asker ? VRAMGC_REASON_PEER : 0};
    if (asker)
        program_of_process(asker, action.asker_name, sizeof action.asker_name);
    if (!library)
        return action;
    const char *name = library > 1 ? store_file()->libraries[library - 1].name : "a library";
    text_copy(action.asker_name, sizeof action.asker_name, name);
    action.reason = VRAMGC_REASON_REFUSED;
    return action;
}

/* Whether anything was done. */
static bool act(struct device *device, struct policy_decision decision,
                struct vramgc_action action) {
    action.device = device_index(device);
    action.reason = action.reason ? action.reason : reclaim_log_reason(decision.reason);
    action.observed = decision.observed;
    action.used_bytes = device_used_bytes(device);
    bool flushed = decision.flush && (device_vm(device) && decision.reason == POLICY_ASKED
                                          ? give_back_pages(device, action)
                                          : flush(device, action));
    bool trimmed = decision.trim && trim_mempool(device, action);
    if (!flushed && !trimmed)
        return false; /* without a Python an induced out of memory may still do it */
    due_read_memory(device);
    reclaim_acted(device);
    return true;
}

/* Mode compact: what of PyTorch's cache could be emptied now that the program rests. Hardly any
 * memory lies behind it, but cudaMemGetInfo tells of it as of memory in use. */
static uint64_t releasable_at_rest(const struct device *device, uint64_t changed_ns, uint64_t now) {
    bool rests = now - changed_ns >= settings_policy().quiet_ns;
    return rests ? device_releasable_bytes(device) : 0;
}

void due_look(struct device *device, uint64_t changed_ns, uint64_t now) {
    struct reclaim *reclaim = reclaim_of(device);
    struct policy_settings settings = settings_policy();
    bool asked = atomic_exchange(&reclaim->asked, false);
    unsigned library = asked ? 0 : atomic_load(&reclaim->library);
    uint64_t asker = asked || library ? 0 : peers_asker(device);
    struct policy_reading reading = {
        .now_ns = now,
        .latest_event_ns = changed_ns,
        .total_bytes = atomic_load(&device->memory.total_bytes),
        .free_bytes = device_free_bytes(device),
        .releasable_bytes = device_releasable_bytes(device),
        .asked = asked || library || asker,
    };
    reading.pool_idle_bytes =
        reading.asked || settings.lowvram ? mempool_look(device) : trim_idle_bytes(device, now);
    struct vm *vm = device_vm(device);
    if (vm) { /* pages go back step by step (decay_thread.h); what PyTorch has reserved counts as
                 used */
        reading.free_bytes = vm_free_as_seen(vm, (int64_t)reading.free_bytes);
        reading.releasable_bytes = reading.asked ? device_idle_page_bytes(device)
                                                 : releasable_at_rest(device, changed_ns, now);
    }
    lock_take(&reclaim->lock);
    struct policy_state before = reclaim->policy;
    bool unfinished = atomic_exchange(&reclaim->unfinished, false);
    if (unfinished) /* what is left to do needs no new cool-down */
        reclaim->policy = (struct policy_state){0};
    struct policy_decision decision = policy_decide(&settings, &reclaim->policy, &reading);
    if (unfinished)
        reclaim->policy = before;
    lock_give(&reclaim->lock);
    bool due = decision.flush || decision.trim;
    if (due && !act(device, decision, asked_by(asker, library)) &&
        unfinished) /* a GPU is at work */
        atomic_store(&reclaim->unfinished, true);
    atomic_store(&reclaim->late, false);
    if (library) /* another that has asked meanwhile stays */
        atomic_compare_exchange_strong(&reclaim->library, &library, 0);
}
