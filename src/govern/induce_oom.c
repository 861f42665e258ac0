/* induce_oom.c: before PyTorch's allocator takes a segment from the driver: is it time to have memory
 * given back, and may that be done by refusing this one call? Runs in the caller's thread with the
 * allocator's lock held: it must not wait, and asks the driver only for free and total. */
#include "base/log.h"
#include "govern/soft_oom.h"
#include "track/device.h"
#include "track/record.h"

static struct { atomic_bool broken; /* a refusal of ours once became a real error */ } self;

static struct soft_oom_facts facts_of(struct device *device, bool allocator) {
    const struct record_thread *thread = &record_thread;
    return (struct soft_oom_facts){
        .from_allocator = allocator,
        .stream_asked = thread->stream_asked,
        .stream_capturing = thread->stream_capturing,
        .capturing = record_capturing(),
        .frees_since_block = thread->frees_since_block,
        .asked_again = thread->refusal.sequence && thread->asked_again,
        .refused_bytes = thread->refused_bytes,
        .expandable = atomic_load_explicit(&device->expandable, memory_order_relaxed),
        .broken = atomic_load_explicit(&self.broken, memory_order_relaxed),
        .releasable_bytes = device_releasable_bytes(device),
        .min_gain_bytes = record_options()->min_gain,
    };
}

static struct policy_decision decide(struct device *device, uint64_t bytes) {
    struct policy_settings settings = record_policy_settings();
    struct policy_reading reading = {
        .now_ns = clock_ns(),
        .total_bytes = atomic_load(&device->total_bytes),
        .free_bytes = device_free_bytes(device),
        .releasable_bytes = device_releasable_bytes(device),
        .request_bytes = bytes,
    };
    reading.latest_event_ns = reading.now_ns;
    lock_take(&device->policy_lock);
    struct policy_decision decision = policy_decide(&settings, &device->policy, &reading);
    lock_give(&device->policy_lock);
    return decision;
}

static void note_observed(struct device *device, uint64_t bytes, uint32_t reason) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t reserved = figure_get(&stats->reserved_bytes.current);
    struct vramgc_action action = {
        .kind = VRAMGC_ACTION_SOFT_OOM,
        .reason = reason,
        .device = device_index(device),
        .observed = 1,
        .request_bytes = bytes,
        .used_bytes = device_used_bytes(device),
        .before_bytes = reserved,
        .after_bytes = minus_u64(reserved, device_releasable_bytes(device)),
    };
    store_action(&action);
    figure_add(&stats->would_reclaims, 1);
    device_acted(device);
}

void segment_begin_refusal(struct device *device, uint64_t bytes, uint32_t reason, bool retries) {
    struct record_thread *thread = &record_thread;
    thread->refused_bytes = bytes;
    thread->refused_ns = clock_ns();
    thread->refused_reason = reason;
    thread->refused_retries = retries;
    thread->refused_used_bytes = device_used_bytes(device);
    thread->refused_reserved_bytes = figure_get(&device->out->stats.reserved_bytes.current);
}

/* With max_split_size_mb PyTorch answers with one large block only. A second refusal would get the
 * rest, or an error: our own thread does it, if it is still due. */
static void leave_the_rest(struct device *device) {
    uint64_t rest = device_releasable_bytes(device);
    if (rest == 0 || rest < record_options()->min_gain)
        return;
    atomic_store(&device->unfinished, true);
    ticker_kick();
}

void segment_given_up(uint64_t bytes) {
    struct record_thread *thread = &record_thread;
    struct device *device = device_if_ready(thread->arriving_device);
    uint64_t part = min_u64(bytes, thread->arriving_bytes);
    if (!part || !device)
        return;
    thread->arriving_bytes -= part;
    atomic_fetch_sub(&device->arriving_bytes, part);
}

void segment_taken(struct device *device, uint64_t bytes) {
    struct record_thread *thread = &record_thread;
    if (thread->arriving_device != device_index(device))
        segment_given_up(UINT64_MAX);
    thread->arriving_device = device_index(device);
    thread->arriving_bytes += bytes;
    atomic_fetch_add(&device->arriving_bytes, bytes);
}

/* Not before: our thread might look while what the allocator has freed is still missing, and find
 * nothing to do. */
void segment_block_came(struct device *device) {
    segment_given_up(UINT64_MAX);
    if (record_thread.rest_is_left)
        leave_the_rest(device);
    record_thread.rest_is_left = false;
}

/* The allocator asks again: what it freed in between is what the refusal gained. */
static void end_refusal(struct device *device) {
    struct record_thread *thread = &record_thread;
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t after = figure_get(&stats->reserved_bytes.current);
    uint64_t gained = minus_u64(thread->refused_reserved_bytes, after);
    struct vramgc_action action = {
        .kind = VRAMGC_ACTION_SOFT_OOM,
        .reason = thread->refused_reason,
        .device = device_index(device),
        .request_bytes = thread->refused_bytes,
        .used_bytes = thread->refused_used_bytes,
        .before_bytes = thread->refused_reserved_bytes,
        .after_bytes = after,
        .took_ns = clock_ns() - thread->refused_ns,
    };
    thread->refused_bytes = 0;
    store_action(&action);
    figure_add(&stats->soft_ooms, 1);
    figure_add(&stats->reclaims, 1);
    figure_add(&stats->alloc_retries, thread->refused_retries);
    figure_add(&stats->reclaimed_bytes, gained);
    figure_add(&stats->reclaim_ns, action.took_ns);
    thread->rest_is_left = true;
    device_acted(device);
}

/* The refusal was the error, or nobody knows what became of it. Whatever the reason, no more. */
static void refusal_failed(const char *how) {
    record_thread.refused_bytes = 0;
    atomic_store(&self.broken, true);
    figure_add(&store_file()->process.internal_errors, 1);
    LOG(LOG_ERROR, "a refused cudaMalloc %s; vramgc will not refuse again in this process", how);
}

static void conclude_refusal(struct device *device, uint64_t bytes) {
    if (bytes == record_thread.refused_bytes)
        end_refusal(device);
    else
        refusal_failed("was not asked for again");
}

bool segment_refusal_ended(struct device *device, uint64_t bytes) {
    if (!record_thread.refused_bytes)
        return false;
    conclude_refusal(device, bytes);
    return true;
}

bool segment_may_refuse(struct device *device) {
    struct soft_oom_facts facts = facts_of(device, true);
    return soft_oom_check(&facts) == SOFT_OOM_SAFE;
}

/* What cannot be had here is left to the ticker, which decides for itself. */
static void leave_to_ticker(struct device *device, enum soft_oom verdict) {
    atomic_store(&device->verdict, verdict);
    atomic_store(&device->wanted, true);
    ticker_kick();
}

/* A storm of segments is decided by one reading and what this process took since. */
static bool know_memory(struct device *device) {
    uint64_t age_ns = clock_ns() - atomic_load(&device->free_read_ns);
    return (atomic_load(&device->total_bytes) && age_ns < 50 * MILLISECOND_NS) ||
           device_read_memory(device);
}

/* The facts are taken before a pending refusal is concluded: its retry is never refused. */
static bool refuse(struct device *device, bool allocator, uint64_t bytes) {
    struct soft_oom_facts facts = facts_of(device, allocator);
    if (allocator)
        segment_refusal_ended(device, bytes);
    if (!facts.capturing && !know_memory(device))
        return false;
    struct policy_decision decision = decide(device, bytes);
    if (!decision.flush)
        return false;
    enum soft_oom verdict = soft_oom_check(&facts);
    if (verdict != SOFT_OOM_SAFE) {
        leave_to_ticker(device, verdict);
        return false;
    }
    if (decision.observed) {
        note_observed(device, bytes, action_reason(decision.reason));
        return false;
    }
    segment_begin_refusal(device, bytes, action_reason(decision.reason), true);
    return true;
}

bool record_refuse_segment(bool allocator, uint64_t bytes) {
    struct device *device = record_ready_in_context() ? device_current() : NULL;
    if (!device)
        return false;
    if (allocator)
        refusal_segment_asked(device, bytes);
    return refuse(device, allocator, bytes);
}

void record_out_of_memory(unsigned index, uint64_t bytes) {
    struct device *device = record_is_on() ? device_at(index) : NULL;
    if (!device)
        return;
    refusal_ends(bytes, false);
    figure_add(&device->out->stats.ooms, 1);
    if (record_thread.refused_bytes) /* the allocator did not ask again */
        refusal_failed("became an out-of-memory error of the program");
}
