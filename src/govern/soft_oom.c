/* soft_oom.c: before PyTorch's allocator takes a segment from the driver: is it time to have
 * memory given back, and may that be done by answering this one call with out of memory? Runs in
 * the caller's thread with the allocator's lock held: it must not wait, and asks the driver only
 * for free and total. */
#include "govern/soft_oom.h"

#include "base/log.h"
#include "govern/reclaim.h"
#include "policy/policy.h"
#include "govern/own_thread.h"
#include "python/names.h"
#include "track/block_map.h"
#include "track/device.h"
#include "track/event_log.h"
#include "track/free_memory.h"
#include "track/oom.h"
#include "track/process_state.h"
#include "track/recorder.h"
#include "track/stream.h"
#include "track/thread.h"

static struct { atomic_bool broken; /* one once became a real error */ } self;

/* The request of this thread that was answered with out of memory. */
static THREAD_LOCAL struct {
    uint64_t bytes; /* 0: none, or it was asked again */
    uint64_t begun_ns;
    uint64_t returned_bytes, used_bytes; /* this thread had returned until then; in use */
    uint32_t reason;
    bool rest_is_left; /* when it has memory, our own thread is to go on with a reclaim */
} under_way;

static struct soft_oom_facts facts_of(struct device *device, bool allocator) {
    const struct thread_stream *stream = thread_stream();
    return (struct soft_oom_facts){
        .from_allocator = allocator,
        .stream_asked = stream->asked,
        .stream_capturing = stream->capturing,
        .capturing = capture_active(),
        .frees_since_block = thread_since_block()->frees,
        .asked_again = oom_is_asked_again(),
        .under_way_bytes = under_way.bytes,
        .expandable = atomic_load_explicit(&device->expandable, memory_order_relaxed),
        .broken = atomic_load_explicit(&self.broken, memory_order_relaxed),
        .releasable_bytes = device_releasable_bytes(device),
        .min_gain_bytes = settings_standards()->min_gain_bytes,
    };
}

static struct policy_decision decide(struct device *device, uint64_t bytes) {
    struct policy_settings settings = settings_policy();
    struct policy_reading reading = {
        .now_ns = clock_ns(),
        .total_bytes = atomic_load(&device->memory.total_bytes),
        .free_bytes = device_free_bytes(device),
        .releasable_bytes = device_releasable_bytes(device),
        .request_bytes = bytes,
    };
    reading.latest_event_ns = reading.now_ns;
    struct reclaim *reclaim = reclaim_of(device);
    LOCKED(&reclaim->lock);
    return policy_decide(&settings, &reclaim->policy, &reading);
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
    reclaim_conclude(device, &action);
    reclaim_acted(device);
}

/* With max_split_size_mb PyTorch answers with one large block only. A second one would get the
 * rest, or an error: our own thread does it, if it is still due. Not before the block has come: it
 * might look while what the allocator has freed is still missing, and find nothing to do. */
void soft_oom_block_came(struct device *device) {
    thread_block_unpending(UINT64_MAX);
    uint64_t rest = under_way.rest_is_left ? device_releasable_bytes(device) : 0;
    under_way.rest_is_left = false;
    if (rest == 0 || rest < settings_standards()->min_gain_bytes)
        return;
    atomic_store(&reclaim_of(device)->unfinished, true);
    wakeup(WAKEUP_LOOK);
}

/* The allocator asks again: what it freed in between is what it gained. */
static void end_soft_oom(struct device *device) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t gained = reclaim_returned_bytes(device) - under_way.returned_bytes;
    struct vramgc_action action = {
        .kind = VRAMGC_ACTION_SOFT_OOM,
        .reason = under_way.reason,
        .device = device_index(device),
        .request_bytes = under_way.bytes,
        .used_bytes = under_way.used_bytes,
        .took_ns = clock_ns() - under_way.begun_ns,
    };
    under_way.bytes = 0;
    names_describe(names_here(), &action);
    reclaim_credit(&action, figure_get(&stats->reserved_bytes.current), gained);
    reclaim_conclude(device, &action);
    figure_add(&stats->alloc_retries, 1); /* as PyTorch does */
    under_way.rest_is_left = true;
    reclaim_acted(device);
}

/* It was the error, or nobody knows what became of it. Whatever the reason, no more. */
static void soft_oom_failed(const char *how) {
    under_way.bytes = 0;
    atomic_store(&self.broken, true);
    figure_add(&store_file()->process.internal_errors, 1);
    LOG(LOG_ERROR, "a soft out-of-memory %s; vramgc makes no more in this process", how);
}

/* A storm of segments is decided by one reading and what this process took since. The facts are
 * taken before a pending one is concluded: its retry is never answered so. */
bool soft_oom_at_malloc(bool allocator, uint64_t bytes) {
    struct device *device = device_current();
    if (!device)
        return false;
    if (allocator)
        oom_segment_asked(device, bytes);
    struct soft_oom_facts facts = facts_of(device, allocator);
    if (allocator && under_way.bytes) /* it ends with the next request */
        bytes == under_way.bytes ? end_soft_oom(device)
                                 : soft_oom_failed("was not followed by a retry");
    if (!facts.capturing && !device_know_memory(device, MEMINFO_KNOWN))
        return false;
    struct policy_decision decision = decide(device, bytes);
    if (!decision.flush)
        return false;
    enum soft_oom verdict = soft_oom_check(&facts);
    if (verdict == SOFT_OOM_SAFE && !decision.observed && !reclaim_need_not_wait(device))
        verdict = SOFT_OOM_AT_WORK;
    if (verdict != SOFT_OOM_SAFE) { /* the flush thread, which decides for itself, may do it */
        atomic_store(&reclaim_of(device)->wanted, verdict);
        wakeup(WAKEUP_LOOK);
        return false;
    }
    if (decision.observed) {
        note_observed(device, bytes, reclaim_log_reason(decision.reason));
        return false;
    }
    under_way.bytes = bytes;
    under_way.begun_ns = clock_ns();
    under_way.reason = reclaim_log_reason(decision.reason);
    under_way.used_bytes = device_used_bytes(device);
    under_way.returned_bytes = reclaim_returned_bytes(device);
    thread_soft_oom_begins();
    return true;
}

void soft_oom_page_created(const CUmemAllocationProp *properties) {
    struct device *device = device_of_memory(properties);
    if (!device || reclaim_is_below_threshold(device))
        return;
    uint64_t gain =
        device_pages(device) ? device_idle_page_bytes(device) : device_releasable_bytes(device);
    if (gain > 0 && gain >= settings_standards()->min_gain_bytes)
        wakeup(WAKEUP_LOOK);
}

void soft_oom_reported(unsigned index, uint64_t bytes) {
    struct device *device = recording_is_on() ? device_at(index) : NULL;
    if (!device)
        return;
    oom_reported(device, bytes);
    if (recorder_is_on())
        recorder_note(device, VRAMGC_NOTE_WANTED, bytes);
    block_map_at_oom(device, bytes);
    wakeup(WAKEUP_LOOK); /* who else holds memory is asked by our own thread */
    if (under_way.bytes) /* the allocator did not ask again */
        soft_oom_failed("became an out-of-memory error of the program");
}
