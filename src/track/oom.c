/* oom.c: allocations that the driver itself refused: what was free then, why it was refused,
 * and whether the caller asked again and got it. It must not guess: an expandable segment asks for
 * a block page by page, so what such a refusal means is known only when the block has come or not.
 */
#include "track/device.h"
#include "serve/native.h"
#include "govern/trim.h"
#include "track/record.h"
#include "track/stack.h"

/* Free and idle bytes together would have been enough: memory was there, but in pieces, or was
 * asked for in such steps that the last did not fit. */
static uint32_t cause_of(const struct vramgc_refusal *refusal, uint64_t wanted_bytes,
                         uint64_t step_bytes) {
    uint64_t there_bytes = refusal->free_bytes + refusal->idle_bytes;
    uint64_t steps = (wanted_bytes + step_bytes - 1) / step_bytes;
    if (!there_bytes)
        return VRAMGC_REFUSAL_UNKNOWN;
    if (there_bytes < wanted_bytes)
        return VRAMGC_REFUSAL_FULL;
    return there_bytes < steps * step_bytes ? VRAMGC_REFUSAL_ROUNDED : VRAMGC_REFUSAL_FRAGMENTED;
}

/* What is held without need. During a capture the pool is not asked. */
static uint64_t idle_bytes(struct device *device) {
    uint64_t idle = paged_engine(device) ? paged_idle_bytes(device)
                                         : figure_get(&device->out->stats.idle_bytes.current);
    return idle + (record_capturing() ? __atomic_load_n(&device->pool_idle_bytes, __ATOMIC_RELAXED)
                                      : pools_look(device));
}

static struct vramgc_refusal describe(struct device *device, enum real_id id, uint64_t bytes) {
    struct vramgc_device_stats *stats = &device->out->stats;
    struct frag_figures figures = device_measure_holes(device, false); /* some programs probe */
    if (!record_capturing())
        device_read_memory(device);
    return (struct vramgc_refusal){
        .time_ns = store_age_ns(),
        .request_bytes = bytes,
        .free_bytes = atomic_load(&device->free_bytes),
        .idle_bytes = idle_bytes(device),
        .holes = figures.free_runs,
        .hole_bytes = figures.free_bytes,
        .largest_hole_bytes = figures.largest_hole_bytes,
        .allocated_bytes = figure_get(&stats->allocated_bytes.current),
        .reserved_bytes = figure_get(&stats->reserved_bytes.current),
        .device = device_index(device),
        .hook = (uint32_t)id,
        .stack = stacks_note(0),
    };
}

/* The request that was refused before is asked for again, as PyTorch does when it has emptied its
 * cache. It is a retry in PyTorch's books. */
static void ask_again(struct device *device) {
    record_thread.asked_again = true;
    figure_add(&device->out->stats.alloc_retries, 1);
}

/* One request stays one refusal however often it is made: what counts is how it was at last.
 * False: there is none. */
static bool tell_again(const struct vramgc_refusal *now, bool of_page) {
    struct record_thread *thread = &record_thread;
    struct vramgc_refusal *refusal = &thread->refusal;
    if (!thread->asked_again || thread->refused_page != of_page || !refusal->sequence)
        return false;
    refusal->free_bytes = now->free_bytes;
    refusal->idle_bytes = now->idle_bytes;
    refusal->holes = now->holes;
    refusal->hole_bytes = now->hole_bytes;
    refusal->largest_hole_bytes = now->largest_hole_bytes;
    refusal->allocated_bytes = now->allocated_bytes;
    refusal->reserved_bytes = now->reserved_bytes;
    refusal->cause = now->cause;
    store_refusal_again(refusal);
    return true;
}

static void file(struct device *device, const struct vramgc_refusal *refusal, bool of_page) {
    struct record_thread *thread = &record_thread;
    if (!tell_again(refusal, of_page)) {
        thread->refusal = *refusal;
        thread->refusal.sequence = store_refusal(refusal);
        thread->refused_page = of_page;
        figure_add(&device->out->stats.refusals, 1);
    }
    thread->asked_again = false;
    figure_add(&device->out->stats.driver_calls, 1);
    record_call_failed((enum real_id)refusal->hook);
}

void record_refused(enum real_id id, uint64_t bytes) {
    struct device *device = record_ready() ? device_current() : NULL;
    if (!device)
        return;
    struct vramgc_refusal refusal = describe(device, id, bytes);
    refusal.cause = cause_of(&refusal, bytes, 1);
    file(device, &refusal, false);
}

/* PyTorch takes the error for none of its own. */
void refusal_of_block(struct device *device, uint64_t bytes) {
    struct vramgc_refusal refusal = describe(device, ID_cuMemCreate, bytes);
    refusal.cause = cause_of(&refusal, bytes, 1);
    store_refusal(&refusal);
    figure_add(&device->out->stats.refusals, 1);
    figure_add(&device->out->stats.ooms, 1);
    figure_add(&device->out->stats.refused_block_bytes, bytes);
}

void record_granted(uint64_t bytes) {
    struct record_thread *thread = &record_thread;
    if (LIKELY(!thread->refusal.sequence) || thread->refused_page)
        return;
    thread->refusal.granted = thread->refusal.request_bytes == bytes;
    if (thread->refusal.granted)
        store_refusal_again(&thread->refusal);
    thread->refusal.sequence = 0;
}

void refusal_segment_asked(struct device *device, uint64_t bytes) {
    const struct record_thread *thread = &record_thread;
    if (LIKELY(!thread->refusal.sequence) || thread->refused_page)
        return;
    if (thread->refusal.hook == ID_cudaMalloc && thread->refusal.request_bytes == bytes)
        ask_again(device);
}

void refusal_page_asked(struct device *device) {
    const struct record_thread *thread = &record_thread;
    if (LIKELY(!thread->refusal.sequence) || !thread->refused_page || thread->asked_again)
        return;
    ask_again(device);
}

/* The pages that were made for the same block before count as free: they go back now. In mode
 * compact there is no memory behind them yet. */
void record_page_refused(uint64_t bytes) {
    struct device *device = record_ready() ? device_current() : NULL;
    if (!device)
        return;
    refusal_page_asked(device);
    struct vramgc_refusal refusal = describe(device, ID_cuMemCreate, bytes);
    if (!paged_engine(device))
        refusal.free_bytes += record_thread.pages_ahead_bytes;
    file(device, &refusal, true);
}

void refusal_ends(uint64_t bytes, bool granted) {
    struct record_thread *thread = &record_thread;
    struct vramgc_refusal *refusal = &thread->refusal;
    if (refusal->sequence && thread->refused_page) {
        uint64_t page_bytes = max_u64(refusal->request_bytes, 1);
        refusal->request_bytes = bytes;
        refusal->granted = granted;
        refusal->cause = cause_of(refusal, bytes, page_bytes);
        store_refusal_again(refusal);
    }
    refusal->sequence = 0;
    thread->refused_page = false;
}
