/* flush.c: see flush.h. Only our own thread may come here: it waits for the GIL, and for the GPU
 * where somebody asked for memory. It must not hold the host allocator's locks, or the GIL, for
 * longer than a user would notice in a click. */
#include "govern/flush.h"

#include "base/log.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "govern/decay_thread.h"
#include "govern/peer_programs.h"
#include "govern/python.h"
#include "govern/reclaim.h"
#include "govern/trim.h"
#include "host/allocator.h"
#include "host/memory.h"
#include "python/names.h"
#include "track/event_log.h"
#include "track/stream.h"
#include "track/device.h"
#include "track/free_memory.h"
#include "track/mempool.h"
#include "track/process_state.h"

/* Who asked for memory (vramgc_reclaim, or a library of the program's) waits for the GPU a fifth of
 * what a user notices, 0.1 s. */
enum { GPU_PATIENCE = 20 };

void flush_read_memory(struct device *device) {
    if (!reclaim_enter(device))
        return;
    mempool_look(device); /* first: what a pool keeps is not others' */
    device_read_memory(device);
}

/* Mode compact: needs neither PyTorch nor Python, but the device's context current. The GPU may not
 * have finished with all pages: it is asked a few times, and the rest is left for the next rest. */
static void give_back_pages(struct device *device, struct vramgc_action action) {
    const uint64_t *physical = &device->out->stats.page_bytes.current;
    uint64_t start = clock_ns(), given = 0;
    struct vm *vm = device_pages(device); /* none: just reset */
    action.kind = VRAMGC_ACTION_PAGES;
    action.before_bytes = figure_get(physical);
    action.after_bytes = minus_u64(action.before_bytes, device_idle_page_bytes(device));
    for (int i = 0; vm && i < GPU_PATIENCE && !action.observed; i++) {
        given += vm_reclaim(vm, UINT64_MAX, VM_POLL);
        device_account_pages(device);
        reclaim_credit(&action, figure_get(physical), given);
        if (!device_idle_page_bytes(device) || capture_active())
            break;
        sleep_ns(MILLISECOND_NS);
    }
    action.took_ns = clock_ns() - start;
    reclaim_conclude(device, &action);
}

static uint64_t reserved_bytes(const struct device *device) {
    return figure_get(&device->out->stats.reserved_bytes.current);
}

/* PyTorch empties the cache of all devices: each that got something back is told of. */
static void conclude_flush(struct device *asked, const struct vramgc_action first,
                           const uint64_t returned_before[VRAMGC_MAX_DEVICES]) {
    for (EACH_DEVICE(device)) {
        unsigned i = device_index(device);
        uint64_t returned = reclaim_returned_bytes(device) - returned_before[i];
        if (device != asked && !returned)
            continue;
        if (device_pages(device) && !returned) { /* addresses */
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
    for (EACH_DEVICE(device))
        waits = waits || !reclaim_need_not_wait(device);
    return waits;
}

/* PyTorch up to 2.14 waits for the current device only, and then unmaps what the others work on. */
static bool all_finish(const struct device *asked) {
    real_cuCtxSynchronize_t synchronize = REAL(cuCtxSynchronize);
    bool over = synchronize;
    for (EACH_DEVICE(device))
        over = over && (!reclaim_enter(device) || synchronize() == CUDA_SUCCESS);
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
    for (EACH_DEVICE(device))
        if (!must_not)
            decay_flush_begins(device);
    return must_not;
}

/* The steps that PyTorch unmapped by itself just before go with the rest. */
static void give_back_steps(void) {
    for (EACH_DEVICE(device))
        if (device_steps(device))
            vm_reclaim(device_steps(device), UINT64_MAX, VM_ASK_NOT);
}

/* Has PyTorch empty its cache, through Python. False: nothing was done. */
static bool flush_cache(struct device *device, struct vramgc_action action) {
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
    for (EACH_DEVICE(each))
        returned[device_index(each)] = reclaim_returned_bytes(each);
    while (!python_call_torch("_cuda_emptyCache", must_not_flush, &flushing)) {
        if (--tries == 0)
            return false;
        sleep_ns(MILLISECOND_NS);
    }
    give_back_steps();
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

/* False: nothing was done. */
static bool flush_or_trim(struct device *device, struct policy_decision decision,
                          struct vramgc_action action) {
    action.device = device_index(device);
    action.reason = action.reason ? action.reason : reclaim_log_reason(decision.reason);
    action.observed = decision.observed;
    action.used_bytes = device_used_bytes(device);
    bool pages = decision.flush && device_pages(device) && decision.reason == POLICY_ASKED;
    if (pages)
        give_back_pages(device, action);
    bool flushed = pages || (decision.flush && flush_cache(device, action));
    bool trimmed = decision.trim && trim_mempool(device, action);
    if (!flushed && !trimmed)
        return false; /* without a Python a soft out-of-memory may still do it */
    flush_read_memory(device);
    reclaim_acted(device);
    return true;
}

/* Mode compact: what of PyTorch's cache could be emptied now that the program rests. Hardly any
 * memory lies behind it, but cudaMemGetInfo tells of it as of memory in use. */
static uint64_t releasable_at_rest(const struct device *device, uint64_t changed_ns, uint64_t now) {
    bool rests = now - changed_ns >= settings_policy().quiet_ns;
    return rests ? device_releasable_bytes(device) : 0;
}

void flush_look(struct device *device, uint64_t changed_ns, uint64_t now) {
    struct reclaim *reclaim = reclaim_of(device);
    struct policy_settings settings = settings_policy();
    bool asked = atomic_exchange(&reclaim->asked, false);
    unsigned library = asked ? 0 : atomic_load(&reclaim->asking_library);
    uint64_t asker = asked || library ? 0 : peers_asker(device);
    struct policy_reading reading = {
        .now_ns = now,
        .latest_event_ns = changed_ns,
        .total_bytes = atomic_load(&device->memory.total_bytes),
        .free_bytes = device_free_bytes(device),
        .releasable_bytes = device_releasable_bytes(device),
        .asked = asked || library || asker,
    };
    if (reading.asked)
        give_back_steps();
    reading.pool_idle_bytes =
        reading.asked || settings.lowvram ? mempool_look(device) : trim_idle_bytes(device, now);
    struct vm *vm = device_pages(device);
    if (vm) { /* pages go back step by step (decay_thread.h); what PyTorch has reserved counts as
                 used */
        reading.free_bytes = vm_free_as_seen(vm, (int64_t)reading.free_bytes);
        reading.releasable_bytes = reading.asked ? device_idle_page_bytes(device)
                                                 : releasable_at_rest(device, changed_ns, now);
    }
    bool unfinished = atomic_exchange(&reclaim->unfinished, false);
    struct policy_state anew = {0}; /* what is left to do needs no new cool-down */
    lock_take(&reclaim->lock);
    struct policy_decision decision =
        policy_decide(&settings, unfinished ? &anew : &reclaim->policy, &reading);
    lock_give(&reclaim->lock);
    bool due = decision.flush || decision.trim;
    if (due && !flush_or_trim(device, decision, asked_by(asker, library)) &&
        unfinished) /* a GPU is at work */
        atomic_store(&reclaim->unfinished, true);
    atomic_store(&reclaim->waited_in_vain, false);
    if (library) /* another that has asked meanwhile stays */
        atomic_compare_exchange_strong(&reclaim->asking_library, &library, 0);
}

/* ---- the host's memory ---- */

/* To read the process's processor time takes 0.3 us. */
#define LOOK_NS (50 * MILLISECOND_NS)

/* While the program works, so that its rest is seen soon: as looks of the device come by then. */
#define WORK_STEP_NS (100 * MILLISECOND_NS)

/* The longest one release may take: half of what a user takes for at once (0.1 s); what is left the
 * next look does. (glibc's cannot be stopped.) */
#define BUDGET_NS (50 * MILLISECOND_NS)

/* To ask the allocator what is in use takes a tenth of what the program itself used since: one that
 * does nothing is not asked again. */
#define ASK_PART 10

/* One release, in as many pieces as it takes. */
struct releasing {
    struct host_rule rule;
    struct host_has before; /* all 0: none is under way */
    uint64_t took_ns;
};

static struct {
    struct host_pace pace;
    struct releasing of_heap, of_pinned;
    struct host_has heap;
    uint64_t ask_again_ns; /* by the program's processor time */
} self;

static struct host_has host_pinned(void) {
    uint64_t bytes = 0;
    for (EACH_DEVICE(device))
        bytes += figure_get(&device->out->stats.pinned_bytes.current);
    return (struct host_has){bytes, 0, bytes};
}

static void ask_what_is_in_use(void) {
    uint64_t begun_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    self.heap = host_allocator_has();
    self.ask_again_ns =
        self.pace.program_ns + ASK_PART * (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns);
    figure_set(&store_file()->host.in_use_bytes, self.heap.in_use_bytes);
}

/* Beside what is in use it has page-locked memory, too, and what was mapped. */
static struct host_has host_heap(void) {
    if (self.pace.program_ns >= self.ask_again_ns)
        ask_what_is_in_use();
    self.heap.bytes = host_memory_own_bytes();
    if (!self.heap.in_use_bytes)
        self.heap.kept_bytes = self.heap.bytes;
    return self.heap;
}

static bool must_not_release(void *context) {
    (void)context;
    return capture_active();
}

static bool release_heap(void) {
    return host_allocator_release(BUDGET_NS);
}

static bool release_pinned(void) {
    python_call_torch("_host_emptyCache", must_not_release, NULL);
    return true;
}

/* By processor time: on a busy machine the clock on the wall tells what others took, too.
 * of: how much there is; release: false while it has not finished. */
static void release_if_due(struct releasing *releasing, uint64_t now_ns,
                           struct host_has (*of)(void), bool (*release)(void),
                           uint64_t *released_bytes) {
    struct host_has has = of();
    bool under_way = releasing->before.bytes;
    if (!under_way && !host_release_is_due(&releasing->rule, now_ns, has))
        return;
    if (!under_way)
        releasing->before = has;
    uint64_t begun_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    bool over = release();
    uint64_t took_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    struct host_has after = of();
    releasing->took_ns += took_ns;
    figure_add(&store_file()->process.host_release_ns, took_ns);
    figure_add(released_bytes, minus_u64(has.bytes, after.bytes));
    if (!over)
        return;
    figure_add(&store_file()->process.host_releases, 1);
    host_released(&releasing->rule, now_ns, releasing->took_ns, releasing->before, after);
    LOG(LOG_DEBUG, "host: %s gave back %llu MiB in %llu ms",
        release == release_heap ? host_allocator_name() : "PyTorch's page-locked cache",
        (unsigned long long)(minus_u64(releasing->before.bytes, after.bytes) / MEBIBYTE),
        (unsigned long long)(releasing->took_ns / MILLISECOND_NS));
    releasing->before = (struct host_has){0};
    releasing->took_ns = 0;
}

static void host_release(uint64_t now_ns) {
    struct vramgc_process_stats *process = &store_file()->process;
    release_if_due(&self.of_pinned, now_ns, host_pinned, release_pinned,
                   &process->pinned_released_bytes);
    if (host_allocator_name())
        release_if_due(&self.of_heap, clock_ns(), host_heap, release_heap,
                       &process->host_released_bytes);
}

/* Whose allocator does not say what is in use, of that is not known what is not. */
static void host_observe(uint64_t now_ns) {
    struct host_has has = host_heap();
    if (has.in_use_bytes)
        figure_add(&store_file()->process.host_unused_bytes,
                   host_release_observed(&self.of_heap.rule, now_ns, has));
}

static void note_call(void) {
    const struct vramgc_process_stats *process = &store_file()->process;
    struct vramgc_host *host = &store_file()->host;
    if (!*host->call &&
        (figure_get(&process->host_released_bytes) || figure_get(&process->host_unused_bytes)))
        text_copy(host->call, sizeof host->call, host_allocator_call());
}

uint64_t flush_host_look(uint64_t now_ns) {
    const struct options *options = settings_options();
    if (options->host == HOST_OFF)
        return UINT64_MAX;
    if (now_ns - self.pace.time_ns < LOOK_NS)
        return LOOK_NS;
    bool rests = host_rests(&self.pace, now_ns, clock_read_ns(CLOCK_PROCESS_CPUTIME_ID),
                            clock_read_ns(CLOCK_THREAD_CPUTIME_ID));
    if (options->host == HOST_OBSERVE || options->mode == MODE_OBSERVE) {
        if (rests)
            host_observe(now_ns);
    } else if (rests)
        host_release(now_ns);
    note_call();
    return !rests ? WORK_STEP_NS : self.of_heap.before.bytes ? LOOK_NS : UINT64_MAX;
}
