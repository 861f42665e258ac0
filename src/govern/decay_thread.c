/* decay_thread.c: see decay_thread.h. The threads of the program must never wait here. */
#include "govern/decay_thread.h"

#include "govern/reclaim.h"
#include "govern/own_thread.h"
#include "track/event_log.h"
#include "track/stream.h"
#include "track/free_memory.h"
#include "track/process_state.h"

/* Shortest step of our thread, and the pause while anything is captured. How soon the GPU is asked
 * again where it has not finished: a hundredth of the cool-down. With twice or half of STEP_NS, or
 * twice RETRY_NS, sd15 and sdxl_offload hold the same under lowvram, within 1 %. */
#define STEP_NS  (MILLISECOND_NS / 5)
#define NAP_NS   MILLISECOND_NS
#define RETRY_NS (10 * MILLISECOND_NS)

/* Pages that go one after another are told as one action. It ends when none has gone for PAUSE_NS,
 * or after LONGEST_NS. */
#define PAUSE_NS   SECOND_NS
#define LONGEST_NS (60 * SECOND_NS)

/* An action that is not over yet. */
struct burst {
    struct vramgc_action action; /* not over yet; kind 0: none */
    uint64_t given_bytes;        /* by the action */
    uint64_t held_bytes;         /* before it, by this process */
    uint64_t begun_ns, latest_ns;
};

/* Of one device. */
struct decaying {
    struct lock lock; /* the bursts */
    struct burst bursts[VRAMGC_REASONS];
    _Atomic uint64_t flushed_bytes; /* given up by PyTorch because we had it, at most; to go yet */
};

static struct {
    _Atomic uint64_t looked_ns; /* when our thread last did */
    _Atomic uint64_t next_ns;   /* when it will; UINT64_MAX: it is at work now */
    struct decaying devices[VRAMGC_MAX_DEVICES];
} self;
CHILD_OPENS_EACH(self.devices);

static struct decay_limits limits_of(const struct device *device, struct vm *vm) {
    struct policy_settings settings = settings_policy();
    struct vm_figures figures = vm_figures(vm);
    struct policy_idle idle = {
        .total_bytes = atomic_load(&device->memory.total_bytes),
        .used_bytes = device_used_bytes(device) + device_over_bytes(device),
        .kept_bytes = figures.idle_bytes - figures.returned_bytes,
        .returned_bytes = figures.returned_bytes + figures.cached_bytes,
    };
    struct policy_decay decay = policy_decay(&settings, &idle);
    return (struct decay_limits){decay.kept_ns, decay.kept_bytes, decay.returned_ns};
}

/* --- what is told --- */

static struct vramgc_action action_of(struct device *device, uint32_t reason) {
    return (struct vramgc_action){
        .kind = VRAMGC_ACTION_PAGES,
        .reason = reason,
        .device = device_index(device),
        .time_ns = store_age_ns(),
        .used_bytes = device_used_bytes(device),
    };
}

/* The figures and what is written down are true at once. given 0: there was nothing, or the GPU has
 * not finished. */
static void burst_add(struct device *device, const struct vramgc_action *action, uint64_t given,
                      uint64_t start_ns) {
    device_account_pages(device);
    if (!given)
        return;
    struct decaying *decaying = &self.devices[device_index(device)];
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t took_ns = clock_ns() - start_ns;
    figure_add(&stats->reclaimed_bytes, given);
    figure_add(&stats->reclaim_ns, took_ns);
    LOCKED(&decaying->lock);
    struct burst *burst = &decaying->bursts[action->reason];
    bool first = !burst->action.kind;
    if (first)
        *burst = (struct burst){.action = *action,
                                .begun_ns = start_ns,
                                .held_bytes = figure_get(&stats->held_bytes.current) + given};
    burst->latest_ns = start_ns;
    burst->action.took_ns += took_ns;
    burst->action.until_ns = action->time_ns + took_ns;
    burst->given_bytes += given;
    reclaim_credit(&burst->action, figure_get(&stats->page_bytes.current), burst->given_bytes);
    reclaim_note_held(device, &burst->action, burst->held_bytes);
    reclaim_log_update(&burst->action);
    figure_add(&stats->reclaims, first);
}

/* Tells of what nothing was added to since then, or that began that long ago. */
static void bursts_conclude(struct decaying *decaying, uint64_t latest_ns, uint64_t begun_ns) {
    for (size_t i = 0; i < VRAMGC_REASONS; i++) {
        struct burst *burst = &decaying->bursts[i];
        lock_take(&decaying->lock);
        struct vramgc_action action = burst->action;
        bool over = action.kind && (burst->latest_ns <= latest_ns || burst->begun_ns <= begun_ns);
        if (over)
            burst->action.kind = VRAMGC_ACTION_NONE;
        lock_give(&decaying->lock);
        if (over)
            reclaim_log_end(&action);
    }
}

void decay_conclude(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        bursts_conclude(&self.devices[i], UINT64_MAX, UINT64_MAX);
}

/* --- what is done --- */

void decay_flush_begins(struct device *device) {
    struct vm *vm = device_pages(device);
    if (vm)
        atomic_store(&self.devices[device_index(device)].flushed_bytes, vm_figures(vm).idle_bytes);
}

/* Of what PyTorch had given up and has gone: what is a reclaim of ours. What it gives up by itself
 * is none, but for lowvram, where that goes sooner than without us. */
static uint64_t credited_bytes(const struct device *device, struct vm *vm, uint64_t gone_bytes) {
    _Atomic uint64_t *flushed = &self.devices[device_index(device)].flushed_bytes;
    uint64_t flushed_bytes = atomic_load(flushed), ours = min_u64(gone_bytes, flushed_bytes);
    uint64_t left = min_u64(flushed_bytes - ours, vm_figures(vm).idle_bytes);
    if (flushed_bytes) /* it may have been set anew meanwhile */
        atomic_compare_exchange_strong(flushed, &flushed_bytes, left);
    return settings_options()->lowvram ? gone_bytes : ours;
}

static void decay_pages(struct device *device, struct vm *vm, const struct decay_limits *limits,
                        uint64_t now_ns) {
    bool lowvram = settings_options()->lowvram;
    struct vramgc_action action =
        action_of(device, lowvram ? VRAMGC_REASON_LOWVRAM : VRAMGC_REASON_THRESHOLD);
    uint64_t start_ns = clock_ns();
    struct decayed gone = vm_decay(vm, limits, now_ns);
    burst_add(device, &action, gone.kept_bytes + credited_bytes(device, vm, gone.returned_bytes),
              start_ns);
}

uint64_t decay_after_oom(struct device *device, struct vm *vm, uint64_t bytes) {
    struct vramgc_action action = action_of(device, VRAMGC_REASON_REFUSED);
    uint64_t start_ns = clock_ns();
    action.request_bytes = bytes;
    uint64_t given = vm_reclaim(vm, bytes + PAGE_BYTES, VM_WAIT);
    burst_add(device, &action, given, start_ns);
    return given;
}

/* --- the threads of the program --- */

/* Where our thread would look by more than late_ns too late at memory that got too old since then.
 */
static void wake_if_late(struct device *device, uint64_t since_ns, uint64_t late_ns) {
    struct vm *vm = device_engine(device);
    if (!vm)
        return;
    struct decay_limits limits = limits_of(device, vm);
    uint64_t due_ns = vm_decay_due_ns(vm, &limits), now_ns = clock_ns();
    uint64_t next_ns = atomic_load(&self.next_ns);
    if (due_ns >= since_ns && max_u64(due_ns, now_ns) < minus_u64(next_ns, late_ns) &&
        atomic_compare_exchange_strong(&self.next_ns, &next_ns, now_ns))
        wakeup(WAKEUP_DECAY);
}

/* Not for pages that our thread has seen already and could not give back yet. */
void decay_note_given_up(struct device *device) {
    wake_if_late(device, atomic_load(&self.looked_ns), STEP_NS);
}

/* Else it is in PyTorch's cache, and our thread's next look is soon enough. */
void decay_note_idle(struct device *device) {
    if (settings_options()->lowvram)
        decay_note_given_up(device);
}

void decay_note_used(struct device *device) {
    wake_if_late(device, 0, RETRY_NS);
}

/* --- our own thread --- */

static uint64_t step_device(struct device *device, uint64_t now_ns) {
    struct vm *vm = device_engine(device);
    if (!vm || capture_active())
        return vm ? NAP_NS : UINT64_MAX;
    struct decay_limits limits = limits_of(device, vm);
    if (vm_decay_due_ns(vm, &limits) <= now_ns) {
        decay_pages(device, vm, &limits, now_ns);
        limits = limits_of(device, vm);
    }
    uint64_t due_ns = vm_decay_due_ns(vm, &limits), then_ns = clock_ns();
    if (due_ns == UINT64_MAX)
        return UINT64_MAX;
    return due_ns > then_ns ? max_u64(due_ns - then_ns, STEP_NS)
                            : min_u64(max_u64(limits.kept_ns, STEP_NS), RETRY_NS);
}

uint64_t decay_step(uint64_t now_ns) {
    uint64_t next_ns = UINT64_MAX;
    atomic_store(&self.looked_ns, now_ns);
    for (EACH_DEVICE(device)) {
        next_ns = min_u64(next_ns, step_device(device, now_ns));
        bursts_conclude(&self.devices[device_index(device)], minus_u64(now_ns, PAUSE_NS),
                        minus_u64(now_ns, LONGEST_NS));
    }
    return next_ns;
}

void decay_sleep(uint64_t until_ns) {
    atomic_store(&self.next_ns, until_ns);
}
