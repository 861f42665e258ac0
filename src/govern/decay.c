/* decay.c: see decay.h. A page that goes back and is wanted again costs more calls of the driver
 * than one that stayed, so there is a trade: policy_linger says for how long it stays. The threads
 * of the program must never wait here. */
#include "govern/decay.h"

#include "govern/background_thread.h"
#include "track/capture.h"
#include "track/device.h"
#include "track/reclaim_log.h"
#include "track/settings.h"

/* Shortest step of our thread, and the pause while anything is captured. */
#define STEP_NS (MILLISECOND_NS / 5)
#define NAP_NS  MILLISECOND_NS

/* How late our thread must be for the program's own to do its work, how long that may take each
 * time, and how soon after the GPU had not finished it is asked again. */
#define LATE_NS (MILLISECOND_NS / 5)
#define HELP_NS (MILLISECOND_NS * 3 / 20) /* 0.2 ms with all that is around it */
#define ASK_NS  (MILLISECOND_NS / 10)

/* What goes back in one go is told as one action: until nothing has gone for so long, or it has
 * lasted for so long. */
#define PAUSE_NS   SECOND_NS
#define LONGEST_NS (60 * SECOND_NS)

/* What is told as one action. */
struct burst {
    struct vramgc_action action; /* not over yet; kind 0: none */
    uint64_t given_bytes;        /* by the action */
    uint64_t begun_ns, latest_ns;
};

/* What is known of one device. */
struct decaying {
    struct lock lock;        /* what follows, up to bursts */
    struct vm_age age;       /* the pages idle then are waited for to stay idle long enough */
    _Atomic uint64_t age_ns; /* written with the lock held; 0: not waiting */
    struct burst bursts[VRAMGC_REASONS];
    _Atomic uint64_t ask_ns; /* the program's threads do not ask the GPU before */
};

static struct {
    _Atomic uint64_t next_ns; /* when our thread will look; 0: it is at work */
    struct decaying devices[VRAMGC_MAX_DEVICES];
} self;

/* What is above the threshold and could go, and how long it should have been idle for that. */
struct due {
    uint64_t bytes, linger_ns;
};

/* What of so much idle memory is above the threshold. */
static uint64_t excess(const struct device *device, const struct policy_settings *settings,
                       uint64_t idle_bytes) {
    return policy_excess(settings, atomic_load(&device->total_bytes), device_used_bytes(device),
                         idle_bytes);
}

static struct due due_of(const struct device *device, struct vm *vm) {
    struct policy_settings settings = settings_policy();
    struct vm_figures figures = vm_figures(vm);
    uint64_t idle = figures.idle_bytes + figures.cached_bytes;
    uint64_t bytes = excess(device, &settings, idle);
    uint64_t live = minus_u64(figures.mapped_bytes, figures.idle_bytes);
    uint64_t linger_ns = bytes ? policy_linger(&settings, idle, live) : 0;
    if (bytes && !settings.lowvram && settings.cooldown_ns)
        linger_ns = max_u64(linger_ns, vm_min_idle_ns(vm));
    return (struct due){bytes, linger_ns};
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

/* The figures and what is written down are true at once. */
static void count(struct device *device, const struct vramgc_action *action, uint64_t given,
                  uint64_t start_ns) {
    struct decaying *decaying = &self.devices[device_index(device)];
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t took_ns = clock_ns() - start_ns;
    figure_add(&stats->reclaimed_bytes, given);
    figure_add(&stats->reclaim_ns, took_ns);
    lock_take(&decaying->lock);
    struct burst *burst = &decaying->bursts[action->reason];
    bool first = !burst->action.kind;
    if (first)
        *burst = (struct burst){.action = *action, .begun_ns = start_ns};
    burst->latest_ns = start_ns;
    burst->action.took_ns += took_ns;
    burst->given_bytes += given;
    burst->action.after_bytes = figure_get(&stats->page_bytes.current);
    burst->action.before_bytes = burst->action.after_bytes + burst->given_bytes;
    reclaim_log_update(&burst->action);
    lock_give(&decaying->lock);
    figure_add(&stats->reclaims, first);
}

/* What an action gave back; returned. 0: there was nothing, or the GPU has not finished. */
static uint64_t account(struct device *device, const struct vramgc_action *action, uint64_t given,
                        uint64_t start_ns) {
    device_account_pages(device);
    if (given)
        count(device, action, given, start_ns);
    return given;
}

/* Tells of what nothing was added to since then, or that began that long ago. */
static void conclude_one(struct decaying *decaying, struct burst *burst, uint64_t latest_ns,
                         uint64_t begun_ns) {
    lock_take(&decaying->lock);
    struct vramgc_action action = burst->action;
    bool over = action.kind && (burst->latest_ns <= latest_ns || burst->begun_ns <= begun_ns);
    if (over)
        burst->action.kind = VRAMGC_ACTION_NONE;
    lock_give(&decaying->lock);
    if (over)
        reclaim_log_end(&action);
}

static void conclude(struct decaying *decaying, uint64_t latest_ns, uint64_t begun_ns) {
    for (size_t i = 0; i < VRAMGC_REASONS; i++)
        conclude_one(decaying, &decaying->bursts[i], latest_ns, begun_ns);
}

void decay_conclude(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        conclude(&self.devices[i], UINT64_MAX, UINT64_MAX);
}

/* --- what is done, by whomever --- */

/* Returns the bytes. budget_ns: as in vm_reclaim_decayed. */
static uint64_t reclaim(struct device *device, struct vm *vm, uint64_t bytes, struct vm_age age,
                        uint64_t budget_ns) {
    struct vramgc_action action = action_of(
        device, settings_options()->lowvram ? VRAMGC_REASON_LOWVRAM : VRAMGC_REASON_THRESHOLD);
    uint64_t start_ns = clock_ns();
    uint64_t given = vm_reclaim_decayed(vm, bytes, age, budget_ns);
    return account(device, &action, given, start_ns);
}

void decay_unwanted(struct device *device, struct vm *vm, uint64_t now_ns) {
    struct vramgc_action action = action_of(device, VRAMGC_REASON_UNUSED);
    uint64_t start_ns = clock_ns();
    uint64_t given = vm_decay(vm, now_ns);
    account(device, &action, given, start_ns);
}

uint64_t decay_after_oom(struct device *device, struct vm *vm, uint64_t bytes) {
    struct vramgc_action action = action_of(device, VRAMGC_REASON_REFUSED);
    uint64_t start_ns = clock_ns();
    action.request_bytes = bytes;
    uint64_t given = vm_reclaim_now(vm, bytes + PAGE_BYTES);
    return account(device, &action, given, start_ns);
}

/* Waits from now on for what is idle now. */
static void begin_waiting(struct decaying *decaying, struct vm *vm, uint64_t now_ns) {
    struct vm_age age = vm_age(vm);
    lock_take(&decaying->lock);
    decaying->age = age;
    atomic_store_explicit(&decaying->age_ns, now_ns, memory_order_relaxed);
    lock_give(&decaying->lock);
}

static struct vm_age age_waited_for(struct decaying *decaying) {
    lock_take(&decaying->lock);
    struct vm_age age = decaying->age;
    lock_give(&decaying->lock);
    return age;
}

static uint64_t waiting_since(const struct decaying *decaying) {
    return atomic_load_explicit(&decaying->age_ns, memory_order_relaxed);
}

/* --- the threads of the program --- */

static void wake(uint64_t next_ns, uint64_t now_ns) {
    if (atomic_compare_exchange_strong(&self.next_ns, &next_ns, now_ns))
        background_thread_wake();
}

/* Whether anything went. Where the GPU has not finished it is not asked at every block event. */
static bool help(struct device *device, struct vm *vm, uint64_t bytes, struct vm_age age,
                 uint64_t now_ns) {
    struct decaying *decaying = &self.devices[device_index(device)];
    if (now_ns < atomic_load_explicit(&decaying->ask_ns, memory_order_relaxed))
        return false;
    bool helped = reclaim(device, vm, bytes, age, HELP_NS) > 0;
    if (!helped)
        atomic_store_explicit(&decaying->ask_ns, now_ns + ASK_NS, memory_order_relaxed);
    return helped;
}

/* Where there are too few processors for our thread. What is left, the next block event does. */
static void do_its_work(struct device *device, struct vm *vm, uint64_t bytes, uint64_t now_ns) {
    struct decaying *decaying = &self.devices[device_index(device)];
    if (!help(device, vm, bytes, age_waited_for(decaying), now_ns))
        begin_waiting(decaying, vm, now_ns);
}

/* Below the threshold the first question is all there is to do. */
void decay_note(struct device *device) {
    struct vm *vm = device_vm(device);
    struct policy_settings settings = settings_policy();
    if (!vm || !excess(device, &settings, UINT64_MAX))
        return;
    struct due due = due_of(device, vm);
    uint64_t now_ns = due.bytes ? clock_ns() : 0;
    if (due.bytes && !due.linger_ns && help(device, vm, due.bytes, vm_age(vm), now_ns))
        due = due_of(device, vm);
    if (!due.bytes)
        return;
    uint64_t next_ns = atomic_load_explicit(&self.next_ns, memory_order_relaxed);
    struct decaying *decaying = &self.devices[device_index(device)];
    uint64_t since_ns = waiting_since(decaying);
    if (!since_ns)
        begin_waiting(decaying, vm, now_ns);
    if (due.linger_ns < settings.quiet_ns && now_ns + due.linger_ns + STEP_NS < next_ns)
        wake(next_ns, now_ns);
    else if (since_ns && now_ns > since_ns + due.linger_ns + LATE_NS)
        do_its_work(device, vm, due.bytes, now_ns);
}

/* --- our own thread --- */

/* What is idle now is looked at again when it has been idle long enough; the GPU is asked at both
 * times. Who takes up what has been waited for has the program's threads wait anew. 0: nothing to
 * do. */
static uint64_t step_one(struct device *device, struct vm *vm, uint64_t now_ns) {
    struct decaying *decaying = &self.devices[device_index(device)];
    struct due due = due_of(device, vm);
    uint64_t since_ns = waiting_since(decaying);
    if (!due.bytes) {
        atomic_store_explicit(&decaying->age_ns, 0, memory_order_relaxed);
        return 0;
    }
    if (since_ns && now_ns < since_ns + due.linger_ns)
        return max_u64(since_ns + due.linger_ns - now_ns, STEP_NS);
    struct vm_age age = due.linger_ns ? age_waited_for(decaying) : vm_age(vm);
    begin_waiting(decaying, vm, now_ns);
    if (since_ns || !due.linger_ns)
        reclaim(device, vm, due.bytes, age, 0);
    begin_waiting(decaying, vm, clock_ns());
    vm_reclaim_decayed(vm, 0, age, 0);
    return max_u64(due.linger_ns, STEP_NS);
}

uint64_t decay_step(uint64_t now_ns) {
    uint64_t next_ns = 0;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        struct vm *vm = device ? device_vm(device) : NULL;
        if (!vm)
            continue;
        uint64_t step_ns = capture_active() ? NAP_NS : step_one(device, vm, now_ns);
        conclude(&self.devices[i], minus_u64(now_ns, PAUSE_NS), minus_u64(now_ns, LONGEST_NS));
        if (step_ns)
            next_ns = next_ns ? min_u64(next_ns, step_ns) : step_ns;
    }
    return next_ns;
}

void decay_sleep(uint64_t until_ns) {
    atomic_store(&self.next_ns, until_ns);
}

void decay_forget(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        lock_force_open(&self.devices[i].lock);
}

void decay_tick(struct device *device, uint64_t now) {
    struct vm *vm = device_vm(device);
    if (!vm)
        return;
    vm_spill_decay(vm);
    decay_unwanted(device, vm, now);
}
