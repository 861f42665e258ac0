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
#include "track/alloc.h"
#include "track/oom.h"
#include "track/recorder.h"
#include "track/thread.h"

static struct {
    struct lock lock;
    struct hashmap events; /* event -> link: address of the block, context: number of the wait */
    struct hashmap waits;  /* address -> link: events outstanding, context: number, bytes */
    uint64_t numbers;      /* of waits: an event of an earlier one says nothing of a later one */
    atomic_size_t pending;
} self;
CHILD_OPENS(self.lock);

static void unmatched(void) {
    figure_add(&store_file()->process.unmatched_blocks, 1);
}

/* The end of a pending block was not seen; it must not be seen later, when the address is another
 * block's. */
static bool complete_unseen(const struct block_event *event) {
    struct hashmap_entry wait;
    lock_take(&self.lock);
    bool waited = hashmap_take(&self.waits, event->address, &wait);
    lock_give(&self.lock);
    if (waited)
        atomic_fetch_sub(&self.pending, 1);
    return heap_complete(event->device->heap, event->address);
}

/* The lock is held. */
static void tag(const struct block_event *event) {
    struct device *device = event->device;
    heap_set_tag(device->heap, event->address, event->tag);
    owners_take(&device->owners, event->tag, event->bytes);
}

static bool hand_out(const struct block_event *event) {
    struct device *device = event->device;
    figure_bump(&device->out->stats.block_allocs, 1);
    figure_bump(&device->out->stats.block_alloc_bytes, event->bytes);
    if (LIKELY(heap_allocate(device->heap, event->address, event->bytes)))
        return true;
    return complete_unseen(event) && heap_allocate(device->heap, event->address, event->bytes);
}

static bool take_block_back(struct device *device, uint64_t address, bool pending) {
    figure_bump(&device->out->stats.block_frees, 1);
    if (UNLIKELY(pending))
        figure_bump(&device->out->stats.pending_frees, 1);
    struct heap_block block = {0};
    bool fits = pending ? heap_pend(device->heap, address, &block)
                        : heap_free(device->heap, address, &block);
    owners_give(&device->owners, block.tag, block.bytes);
    return fits;
}

/* Files the events that the block waits for. Of more than THREAD_MAX_EVENTS not all are filed, so
 * that it waits until it is handed out again. False: no room; the block counts as free at once. */
static bool wait_for_events(unsigned device, uint64_t address) {
    struct thread_state *thread = &thread_state;
    struct hashmap_entry wait = {
        .key = address, .link = thread->since_block.event_count, .device = (uint16_t)device};
    bool filed;
    lock_take(&self.lock);
    wait.context = ++self.numbers;
    filed = hashmap_put(&self.waits, &wait, NULL);
    for (unsigned i = 0; filed && i < thread->since_block.event_count && i < THREAD_MAX_EVENTS;
         i++) {
        struct hashmap_entry event = {.key = thread->since_block.events[i],
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

bool block_begin(unsigned index, uint64_t address, int64_t bytes, struct block_event *event) {
    struct device *device = device_at(index);
    if (UNLIKELY(!device || !address))
        return false;
    struct thread_state *thread = &thread_state;
    uint64_t size = (uint64_t)(bytes > 0 ? bytes : -bytes);
    bool pending = bytes < 0 && UNLIKELY(thread->since_block.event_count > 0) &&
                   wait_for_events(index, address);
    *event = (struct block_event){
        .device = device,
        .address = address,
        .bytes = size,
        .allocated = bytes > 0,
        .pending = pending,
    };
    thread->since_block.event_count = 0;
    thread->since_block.frees = 0;
    thread->since_block.emptied = false;
    thread->since_block.recorded = false;
    thread->since_block.soft_oom = false;
    thread->since_block.refused = false;
    thread->since_block.segments = 0;
    oom_block_changed(address, bytes > 0);
    if (UNLIKELY(thread->oom.of_page) && bytes > 0)
        oom_ends(size, true);
    return true;
}

void block_end(const struct block_event *event) {
    struct device *device = event->device;
    lock_take(&device->lock);
    bool fits = event->allocated ? hand_out(event)
                                 : take_block_back(device, event->address, event->pending);
    if (UNLIKELY(event->tag > 0) && fits)
        tag(event);
    if (UNLIKELY(recorder_is_on()) && !thread_state.since_block.refused)
        recorder_block(device, event->address,
                       event->allocated ? (int64_t)event->bytes : -(int64_t)event->bytes,
                       event->pending);
    device_publish_blocks(device);
    device_add_to_mean(device);
    lock_give(&device->lock);
    if (UNLIKELY(!fits))
        unmatched();
}

/* Where it stands in the list of this thread; event_count: nowhere. */
static unsigned event_place(uint64_t event) {
    const struct thread_state *thread = &thread_state;
    unsigned i = 0;
    while (i < thread->since_block.event_count &&
           (i >= THREAD_MAX_EVENTS || thread->since_block.events[i] != event))
        i++;
    return i;
}

/* torch.Event comes out of the same library as the allocator: such an event may be recorded again
 * and again, and be destroyed unasked. */
void block_event_recorded(uint64_t event) {
    struct thread_state *thread = &thread_state;
    if (event_place(event) < thread->since_block.event_count)
        return;
    if (thread->since_block.event_count < THREAD_MAX_EVENTS)
        thread->since_block.events[thread->since_block.event_count] = event;
    thread->since_block.event_count++;
}

void block_event_ended(uint64_t event) {
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
    if (UNLIKELY(recorder_is_on()))
        recorder_completed(device, done.link);
    device_publish(device);
    lock_give(&device->lock);
    if (!fits) /* the address is another block's by now */
        unmatched();
}

void block_event_destroyed(uint64_t event) {
    struct thread_state *thread = &thread_state;
    unsigned place = event_place(event);
    if (place < thread->since_block.event_count &&
        thread->since_block.event_count <= THREAD_MAX_EVENTS)
        thread->since_block.events[place] =
            thread->since_block.events[--thread->since_block.event_count];
}

void block_stream_asked(uint64_t stream, bool capturing) {
    struct thread_state *thread = &thread_state;
    thread->stream.asked = true;
    thread->stream.capturing = capturing;
    thread->stream.handle = stream;
    thread->since_block.event_count = 0; /* those were for blocks freed during a capture */
}

void block_reset(unsigned device) {
    LOCKED(&self.lock);
    hashmap_drop_device(&self.events, device);
    hashmap_drop_device(&self.waits, device);
    atomic_store(&self.pending, self.waits.count);
}
