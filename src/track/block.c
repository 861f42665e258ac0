/* block.c: the hot path: blocks handed out and given back by PyTorch's caching allocator. Called
 * with the allocator's own lock held and perhaps without the GIL: it must never wait for either,
 * allocate, log or call the driver.
 *
 * A block given back while another stream still uses it looks free in the block event. PyTorch
 * records one event for each such stream right before, on the same thread; the block is free when
 * all of them have passed, which PyTorch finds out by cudaEventQuery or cudaEventSynchronize. An
 * event that a program records through torch.Event looks the same; it must not hold a block longer
 * than it exists. */
#include "track/block.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "govern/decay.h"
#include "govern/induce_oom.h"
#include "serve/device_vm.h"
#include "track/capture.h"
#include "track/device.h"
#include "track/oom.h"
#include "track/thread.h"

static struct {
    struct lock lock;
    struct hashmap events; /* event -> link: address of the block, context: number of the wait */
    struct hashmap waits;  /* address -> link: events outstanding, context: number, bytes */
    uint64_t numbers;      /* of waits: an event of an earlier one says nothing of a later one */
    atomic_size_t pending;
} self;

/* In flags of a wait: the block's pages have been left to the engine before its events passed. */
enum { LEFT = 1, LEAVE_BATCH = 32 };

static void unmatched(void) {
    figure_add(&store_file()->process.unmatched_blocks, 1);
}

/* The end of a pending block was not seen; nobody shall see it later, when the address is another
 * block's. */
static bool complete_unseen(struct device *device, uint64_t address) {
    struct hashmap_entry wait;
    lock_take(&self.lock);
    bool waited = hashmap_take(&self.waits, address, &wait);
    lock_give(&self.lock);
    if (waited) {
        atomic_fetch_sub(&self.pending, 1);
        if (!(wait.flags & LEFT))
            device_vm_mark_idle(device, address, wait.bytes, false);
    }
    return heap_complete(device->heap, address);
}

static bool hand_out(struct device *device, uint64_t address, uint64_t bytes) {
    figure_bump(&device->out->stats.block_allocs, 1);
    figure_bump(&device->out->stats.block_alloc_bytes, bytes);
    if (LIKELY(heap_allocate(device->heap, address, bytes)))
        return true;
    return complete_unseen(device, address) && heap_allocate(device->heap, address, bytes);
}

static bool take_back(struct device *device, uint64_t address, bool pending) {
    figure_bump(&device->out->stats.block_frees, 1);
    if (LIKELY(!pending))
        return heap_free(device->heap, address, NULL);
    figure_bump(&device->out->stats.pending_frees, 1);
    return heap_pend(device->heap, address, NULL);
}

/* Files the events that the block waits for. Of more than THREAD_MAX_EVENTS not all are filed, so
 * that it waits until it is handed out again. False: no room; the block counts as free at once. */
static bool wait_for_events(unsigned device, uint64_t address, uint64_t bytes) {
    struct thread_state *thread = &thread_state;
    struct hashmap_entry wait = {
        .key = address, .bytes = bytes, .link = thread->event_count, .device = (uint16_t)device};
    bool filed;
    lock_take(&self.lock);
    wait.context = ++self.numbers;
    filed = hashmap_put(&self.waits, &wait, NULL);
    for (unsigned i = 0; filed && i < thread->event_count && i < THREAD_MAX_EVENTS; i++) {
        struct hashmap_entry event = {.key = thread->events[i],
                                      .link = address,
                                      .context = wait.context,
                                      .device = (uint16_t)device};
        filed = hashmap_put(&self.events, &event, NULL);
    }
    lock_give(&self.lock);
    if (filed)
        atomic_fetch_add(&self.pending, 1);
    return filed;
}

/* Marks some blocks of the device that still wait for other streams. Returns how many. */
static size_t mark_pending(unsigned device, struct hashmap_entry out[LEAVE_BATCH]) {
    size_t count = 0;
    lock_take(&self.lock);
    for (size_t i = 0; i < self.waits.capacity && count < LEAVE_BATCH; i++) {
        struct hashmap_entry *wait = &self.waits.entries[i];
        if (!wait->key || wait->device != device || wait->flags & LEFT)
            continue;
        wait->flags |= LEFT;
        out[count++] = *wait;
    }
    lock_give(&self.lock);
    return count;
}

/* PyTorch asks only now and then whether other streams have finished with a block that was given
 * back. Nobody reads it any more, so its pages can go as soon as the whole GPU has been waited for:
 * that is what it means to mark them idle with streams_done false. Whether there were any. */
static bool leave_pending(struct device *device) {
    struct hashmap_entry batch[LEAVE_BATCH];
    size_t count, all = 0;
    while ((count = mark_pending(device_index(device), batch)) > 0) {
        for (size_t i = 0; i < count; i++)
            device_vm_mark_idle(device, batch[i].key, batch[i].bytes, false);
        all += count;
    }
    return all > 0;
}

/* In the last step before a refusal what waits is taken as well; not while anything is captured,
 * for the GPU cannot be waited for then. */
static bool use_pages(struct device *device, uint64_t address, uint64_t bytes) {
    return LIKELY(device_vm_commit(device, address, bytes)) ||
           (!capture_active() && leave_pending(device) && device_vm_commit(device, address, bytes));
}

/* Mode compact: pages come before the block reaches its user, and may go when it is free. */
static bool move_pages(struct device *device, uint64_t address, int64_t bytes, bool pending,
                       bool streams_done) {
    if (LIKELY(!device_vm(device)))
        return true;
    if (bytes > 0 && !use_pages(device, address, (uint64_t)bytes)) {
        device_vm_commit_failed(device, address, (uint64_t)bytes);
        oom_at_block(device, (uint64_t)bytes);
        return false;
    }
    if (bytes < 0 && !pending) {
        device_vm_mark_idle(device, address, (uint64_t)-bytes, streams_done);
        decay_note_idle(device);
    }
    if (bytes > 0)
        device_account_pages(device);
    return true;
}

bool block_changed(unsigned index, uint64_t address, int64_t bytes) {
    struct device *device = device_at(index);
    if (UNLIKELY(!device || !address))
        return true;
    struct thread_state *thread = &thread_state;
    bool pending = bytes < 0 && UNLIKELY(thread->event_count > 0) &&
                   wait_for_events(index, address, (uint64_t)-bytes);
    bool streams_done =
        pending || !thread->event_count; /* else other streams use it, and nobody tells */
    thread->event_count = 0;
    thread->frees_since_block = 0;
    thread->segments_since_block = 0;
    if (UNLIKELY(thread->driver_oom_page) && bytes > 0)
        oom_ends((uint64_t)bytes, true);
    bool possible = move_pages(device, address, bytes, pending, streams_done);
    lock_take(&device->lock);
    bool fits = bytes > 0 ? hand_out(device, address, (uint64_t)bytes)
                          : take_back(device, address, pending);
    device_publish_blocks(device);
    device_add_to_mean(device);
    lock_give(&device->lock);
    if (UNLIKELY(thread->pending_block_bytes > 0) && bytes > 0)
        induce_oom_block_came(device);
    if (UNLIKELY(!fits))
        unmatched();
    return possible;
}

/* Where it stands in the list of this thread; event_count: nowhere. */
static unsigned place_of(uint64_t event) {
    const struct thread_state *thread = &thread_state;
    unsigned i = 0;
    while (i < thread->event_count && (i >= THREAD_MAX_EVENTS || thread->events[i] != event))
        i++;
    return i;
}

/* torch.Event comes out of the same library as the allocator: such an event may be recorded again
 * and again, and be destroyed unasked. */
void block_event_recorded(uint64_t event) {
    struct thread_state *thread = &thread_state;
    if (place_of(event) < thread->event_count)
        return;
    if (thread->event_count < THREAD_MAX_EVENTS)
        thread->events[thread->event_count] = event;
    thread->event_count++;
}

/* streams_done: the GPU is past it. */
static void event_ends(uint64_t event, bool streams_done) {
    struct hashmap_entry done, last, *wait;
    bool completed = false;
    if (LIKELY(atomic_load_explicit(&self.pending, memory_order_relaxed) == 0))
        return;
    lock_take(&self.lock);
    if (hashmap_take(&self.events, event, &done) &&
        (wait = hashmap_find(&self.waits, done.link)) != NULL && wait->context == done.context &&
        --wait->link == 0)
        completed = hashmap_take(&self.waits, done.link, &last);
    lock_give(&self.lock);
    struct device *device = completed ? device_if_ready(done.device) : NULL;
    if (!device)
        return;
    atomic_fetch_sub(&self.pending, 1);
    lock_take(&device->lock);
    bool fits = heap_complete(device->heap, done.link);
    device_publish(device);
    lock_give(&device->lock);
    if (fits && !(last.flags & LEFT)) /* else the address is another block's by now */
        device_vm_mark_idle(device, last.key, last.bytes, streams_done);
    decay_note_idle(device);
    if (!fits)
        unmatched();
}

void block_event_done(uint64_t event) {
    event_ends(event, true);
}

void block_event_destroyed(uint64_t event) {
    struct thread_state *thread = &thread_state;
    unsigned place = place_of(event);
    if (place < thread->event_count && thread->event_count <= THREAD_MAX_EVENTS)
        thread->events[place] = thread->events[--thread->event_count];
    event_ends(event, false);
}

void block_stream_asked(uint64_t stream, bool capturing) {
    struct thread_state *thread = &thread_state;
    thread->stream_asked = true;
    thread->stream_capturing = capturing;
    thread->stream = stream;
    thread->event_count = 0; /* those were for blocks freed during a capture */
}

void block_reset(unsigned device) {
    lock_take(&self.lock);
    hashmap_drop_device(&self.events, device);
    hashmap_drop_device(&self.waits, device);
    atomic_store(&self.pending, self.waits.count);
    lock_give(&self.lock);
}

void block_unlock(void) {
    lock_force_open(&self.lock);
}
