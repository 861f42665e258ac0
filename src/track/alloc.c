/* alloc.c: allocations by address: what was handed out, to whom, of which class. Free: the record
 * is taken out before the call and put back if the driver refuses; allocation: recorded only after
 * it succeeded. So an address that the driver hands out again at once is never lost or doubled. */
#include "track/alloc.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "python/names.h"
#include "track/callers.h"
#include "track/device.h"
#include "track/mempool.h"
#include "track/oom.h"
#include "track/thread.h"
#include "vm/book.h"

enum { FLAG_SEGMENT = 1, FLAG_BLOCK = 2, LENT_SHIFT = 2, LENT_MASK = 63 };

static struct hashmap_entry first_addresses[1024];

static struct {
    struct lock lock;
    struct hashmap addresses;
} self = {.addresses = HASHMAP_IN(first_addresses)};
CHILD_OPENS(self.lock);

static struct vramgc_gauge *gauge_of(struct vramgc_device_stats *stats, uint32_t class) {
    switch (class) {
    case CLASS_MANAGED:
        return &stats->managed_bytes;
    case CLASS_PINNED:
    case CLASS_REGISTERED:
        return &stats->pinned_bytes;
    case CLASS_IMPORTED:
        return &stats->imported_bytes;
    case CLASS_GRAPH:
        return &stats->graph_bytes;
    case CLASS_ADDRESS:
        return &stats->address_bytes;
    case CLASS_VM_POOL:
        return &stats->pool_bytes; /* held is what the page engine has */
    default:
        return NULL;
    }
}

/* A pool serves an allocation from what it has kept, and keeps what it is given back: held bytes
 * stay the same until our own thread has looked at the pool. */
static void count_pool(struct device *device, uint64_t bytes, bool more) {
    struct vramgc_device_stats *stats = &device->out->stats;
    LOCKED(&device->lock);
    uint64_t kept = device->pool.idle_bytes;
    uint64_t reused = more ? min_u64(kept, bytes) : 0;
    uint64_t before = device->pool.used_bytes;
    uint64_t used = more ? before + bytes : minus_u64(before, bytes);
    __atomic_fetch_add(&device->pool.changes, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&device->pool.used_bytes, used, __ATOMIC_RELAXED);
    device->pool.most_bytes = max_u64(device->pool.most_bytes, used);
    mempool_note_together(device);
    __atomic_store_n(&device->pool.idle_bytes, more ? kept - reused : kept + bytes,
                     __ATOMIC_RELAXED);
    if (more)
        gauge_add(&stats->held_bytes, bytes - reused);
    (more ? gauge_add : gauge_subtract)(&stats->pool_bytes, bytes);
    device_publish(device);
}

/* PyTorch rounds each page-locked tensor up to a power of two. */
static bool is_rounded(uint32_t class, uint64_t bytes) {
    bool pinned = class == CLASS_PINNED || class == CLASS_REGISTERED;
    return pinned && bytes >= MEBIBYTE && (bytes & (bytes - 1)) == 0;
}

static void count_alloc(struct device *device, const struct alloc_freed *of, bool more) {
    uint32_t class = of->class;
    uint64_t bytes = of->bytes;
    if (of->lent)
        return;
    if (class == CLASS_POOL) {
        count_pool(device, bytes, more);
        return;
    }
    void (*change)(struct vramgc_gauge *, uint64_t) = more ? gauge_add : gauge_subtract;
    struct vramgc_device_stats *stats = &device->out->stats;
    struct vramgc_gauge *gauge = gauge_of(stats, class);
    if (gauge)
        change(gauge, bytes);
    if (is_rounded(class, bytes))
        change(&stats->pinned_rounded_bytes, bytes);
    if (class == CLASS_DEVICE)
        more ? device_hold(device, bytes) : gauge_subtract(&stats->held_bytes, bytes);
    if (class == CLASS_DEVICE && !more)
        thread_state.returned_bytes[device_index(device)] += bytes;
    if (class == CLASS_DEVICE && !of->segment) {
        change(&stats->other_bytes, bytes);
        library_count(device, of->library, bytes, more);
    }
}

/* Memory that other code has mapped, as comfy-aimdo for the step of a model, is PyTorch's while a
 * tensor is in it. It is given back before the call that frees it, in which the memory may go. */
static void lend(const struct alloc_freed *of, bool more) {
    struct device *device = of->lent ? device_if_ready(of->device) : NULL;
    if (!device || !(of->segment || of->block))
        return;
    void (*change)(struct vramgc_gauge *, uint64_t) = more ? gauge_subtract : gauge_add;
    change(&device->out->stats.other_bytes, of->bytes);
    if (of->lent & BOOK_FOR_STEP)
        change(&device->step_bytes, of->bytes);
    library_count(device, of->library, of->bytes, !more);
}

/* PyTorch's allocator on a stream-ordered pool reports no blocks: each allocation is one. */
static void pool_block(struct device *device, const struct alloc_freed *block, bool more) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t bytes = block->bytes;
    oom_block_changed(block->address, more);
    if (more)
        thread_state.block = block->address;
    LOCKED(&device->lock);
    more ? owners_take(&device->owners, block->tag, bytes)
         : owners_give(&device->owners, block->tag, bytes);
    if (more) {
        device->pool.live_bytes += bytes;
        device->pool.blocks++;
        device->pool.of_pytorch = true;
        figure_bump(&stats->block_allocs, 1);
        figure_bump(&stats->block_alloc_bytes, bytes);
    } else {
        device->pool.live_bytes = minus_u64(device->pool.live_bytes, bytes);
        device->pool.blocks = minus_u64(device->pool.blocks, 1);
        figure_bump(&stats->block_frees, 1);
    }
    device_publish(device);
    device_add_to_mean(device);
}

static void add_segment(struct device *device, uint64_t address, uint64_t bytes) {
    thread_state.since_block.segments++;
    thread_block_pending(device, bytes);
    lock_take(&device->lock);
    bool added = heap_segment_add(device->heap, address, bytes, thread_state.stream.handle);
    figure_bump(&device->out->stats.segment_allocs, 1);
    device_publish(device);
    lock_give(&device->lock);
    if (!added)
        figure_add(&store_file()->process.unmatched_blocks, 1);
}

/* Pools and virtual memory belong to the device, not to the context. */
static uint64_t made_in(enum alloc_class class) {
    CUcontext context = NULL;
    if (class == CLASS_POOL || class == CLASS_GRAPH || class == CLASS_ADDRESS ||
        class == CLASS_VM || class == CLASS_VM_POOL || !real_current_context(&context))
        return 0;
    return (uint64_t)(uintptr_t)context;
}

/* Who takes a tensor of a model's step. */
static uint32_t note_part(bool fresh) {
    struct thread_step *step = &thread_state.step;
    step->site = step->depth ? names_here() : 0;
    step->first_site = step->first_site || !fresh ? step->first_site : step->site;
    return step->depth << NAMES_SITE_BITS | step->site;
}

void alloc_step_begins(void) {
    thread_state.step = (struct thread_step){.depth = thread_state.step.depth + 1};
}

/* Each tensor that the part leaves is told once. The lock is held. */
static void tell_left(struct hashmap_entry *entry, uint32_t depth) {
    uint32_t part = entry->flags & FLAG_BLOCK ? (uint32_t)(entry->link >> 32) : 0;
    if (part >> NAMES_SITE_BITS < depth)
        return;
    entry->link = (uint32_t)entry->link;
    if (names_site(part))
        store_file()->sites[names_site(part) - 1].rogues++;
}

void alloc_step_ends(bool broken, bool outlived) {
    struct thread_step *step = &thread_state.step;
    uint32_t site = step->first_site ? step->first_site : step->site;
    uint32_t depth = step->depth ? step->depth : 1;
    lock_take(&self.lock);
    if (broken && site)
        store_file()->sites[site - 1].breaks++;
    if (outlived)
        for (EACH_ENTRY(entry, &self.addresses))
            tell_left(entry, depth);
    lock_give(&self.lock);
    *step = (struct thread_step){.depth = depth - 1};
}

static uint16_t flags_of(const struct alloc_freed *taken) {
    unsigned kind = taken->segment ? FLAG_SEGMENT : taken->block ? FLAG_BLOCK : 0;
    return (uint16_t)(kind | taken->lent << LENT_SHIFT | taken->library << BOOK_LIBRARY_SHIFT);
}

static struct hashmap_entry entry_of(const struct alloc_freed *taken) {
    return (struct hashmap_entry){.key = taken->address,
                                  .bytes = taken->bytes,
                                  .link = taken->tag | (uint64_t)taken->part << 32,
                                  .context = taken->context,
                                  .class = taken->class,
                                  .device = (uint16_t)taken->device,
                                  .flags = flags_of(taken)};
}

static struct alloc_freed taken_of(const struct hashmap_entry *entry) {
    return (struct alloc_freed){.known = true,
                                .address = entry->key,
                                .bytes = entry->bytes,
                                .context = entry->context,
                                .class = entry->class,
                                .device = entry->device,
                                .shared = entry->class == CLASS_IMPORTED && entry->link > 0,
                                .segment = entry->flags & FLAG_SEGMENT,
                                .block = entry->flags & FLAG_BLOCK,
                                .lent = entry->flags >> LENT_SHIFT & LENT_MASK,
                                .library = entry->flags >> BOOK_LIBRARY_SHIFT,
                                .tag = entry->flags & FLAG_BLOCK ? (uint32_t)entry->link : 0,
                                .part =
                                    entry->flags & FLAG_BLOCK ? (uint32_t)(entry->link >> 32) : 0};
}

static void take_from_heap(const struct alloc_freed *taken) {
    struct device *device = taken->segment ? device_if_ready(taken->device) : NULL;
    if (!device)
        return;
    LOCKED(&device->lock);
    heap_segment_remove(device->heap, taken->address, NULL);
    device_publish(device);
}

enum placed { PLACED, PLACED_AGAIN, NOT_PLACED };

/* Puts the entry into the books in one step, for others may open the same memory of another process
 * at the same time: the address is the same, and it is closed as often as it was opened. *lost:
 * what was there before, because its free was not seen. */
static enum placed place_entry(const struct hashmap_entry *entry, struct alloc_freed *lost) {
    *lost = (struct alloc_freed){.known = false};
    lock_take(&self.lock);
    struct hashmap_entry *found = hashmap_find(&self.addresses, entry->key);
    bool again = found && found->class == CLASS_IMPORTED && entry->class == CLASS_IMPORTED;
    if (again) {
        found->link++;
    } else if (found) {
        *lost = taken_of(found);
        hashmap_take(&self.addresses, entry->key, NULL);
    }
    bool kept = again || hashmap_put(&self.addresses, entry, NULL);
    lock_give(&self.lock);
    return !kept ? NOT_PLACED : again ? PLACED_AGAIN : PLACED;
}

/* A free that was not seen: else the sums would grow for ever. */
static void count_lost(struct alloc_freed *lost) {
    if (!lost->known)
        return;
    lost->shared = false;
    lend(lost, false);
    take_from_heap(lost);
    alloc_free_commit(lost);
    figure_add(&store_file()->process.lost_frees, 1);
}

static void count_allocated(struct device *device, const struct alloc_freed *made) {
    if (UNLIKELY(oom_is_open()) && oom_granted(made->bytes) && made->block)
        device_forget_oom_owners(device, true);
    count_alloc(device, made, true);
    lend(made, true);
    if (made->class == CLASS_DEVICE)
        stack_note(made->bytes);
    if (made->segment)
        add_segment(device, made->address, made->bytes);
    if (made->block)
        pool_block(device, made, true);
}

/* Our own pool answers without the driver. */
static void count_call(struct device *device, uint32_t class) {
    if (class != CLASS_VM_POOL)
        figure_add(&device->out->stats.driver_calls, 1);
}

bool alloc_succeeded(enum alloc_class class, uint64_t address, uint64_t bytes, bool allocator) {
    struct device *device;
    if (!recording_is_on() || !address || !(device = device_current()))
        return false;
    bool block = allocator && (class == CLASS_POOL || class == CLASS_VM_POOL);
    struct alloc_freed lost;
    struct alloc_freed made = {
        .address = address,
        .bytes = bytes,
        .context = made_in(class),
        .class = class,
        .device = device_index(device),
        .segment = allocator && (class == CLASS_DEVICE || class == CLASS_VM),
        .block = block,
        .library = class == CLASS_DEVICE && !allocator ? library_calling() : 0,
        .tag = block ? names_of_block(bytes) : 0,
    };
    if (class == CLASS_DEVICE || class == CLASS_POOL)
        made.lent = book_lent(address, &made.library);
    made.part = made.lent && block ? note_part(made.lent & BOOK_FRESH) : 0;
    struct hashmap_entry entry = entry_of(&made);
    enum placed placed = place_entry(&entry, &lost);
    count_lost(&lost);
    if (placed == NOT_PLACED) {
        figure_add(&store_file()->process.internal_errors, 1);
        return false;
    }
    count_call(device, class);
    if (placed == PLACED)
        count_allocated(device, &made);
    return true;
}

void alloc_free_begin(uint64_t address, struct alloc_freed *taken) {
    *taken = (struct alloc_freed){.address = address};
    if (!recording_is_on())
        return;
    lock_take(&self.lock);
    struct hashmap_entry *found = hashmap_find(&self.addresses, address);
    if (found)
        *taken = taken_of(found);
    if (taken->shared)
        found->link--;
    else
        hashmap_take(&self.addresses, address, NULL);
    lock_give(&self.lock);
    lend(taken, false);
    take_from_heap(taken);
}

/* Meanwhile others may have opened it, or closed it for the last time. */
static void put_back_imported(struct device *device, const struct hashmap_entry *entry,
                              bool shared) {
    lock_take(&self.lock);
    struct hashmap_entry *found = hashmap_find(&self.addresses, entry->key);
    bool there = found != NULL;
    if (there)
        found->link++;
    else
        hashmap_put(&self.addresses, entry, NULL);
    lock_give(&self.lock);
    struct alloc_freed of = taken_of(entry);
    if (shared != there)
        count_alloc(device, &of, shared);
}

void alloc_free_abort(const struct alloc_freed *taken) {
    struct device *device = taken->known ? device_if_ready(taken->device) : NULL;
    if (!device || !recording_is_on())
        return;
    struct hashmap_entry entry = entry_of(taken);
    if (taken->class == CLASS_IMPORTED) {
        put_back_imported(device, &entry, taken->shared);
        return;
    }
    lock_take(&self.lock);
    bool kept = hashmap_put(&self.addresses, &entry, NULL);
    lock_give(&self.lock);
    if (!kept)
        figure_add(&store_file()->process.internal_errors, 1);
    lend(taken, true);
    if (!taken->segment)
        return;
    lock_take(&device->lock);
    heap_segment_restore(device->heap, taken->address);
    device_publish(device);
    lock_give(&device->lock);
}

void alloc_free_commit(const struct alloc_freed *taken) {
    if (!recording_is_on())
        return;
    struct device *device = taken->known ? device_if_ready(taken->device) : NULL;
    if (!device) {
        if (taken->address)
            figure_add(&store_file()->process.unknown_frees, 1);
        return;
    }
    count_call(device, taken->class);
    if (taken->shared)
        return;
    if (taken->block) /* first: what is kept is not live any more */
        pool_block(device, taken, false);
    count_alloc(device, taken, false);
    if (!taken->segment)
        return;
    thread_state.since_block.frees++;
    thread_segment_freed(device);
    LOCKED(&device->lock);
    heap_segment_forget(device->heap, taken->address);
    figure_bump(&device->out->stats.segment_frees, 1);
}

void alloc_reset(unsigned device) {
    LOCKED(&self.lock);
    hashmap_drop_device(&self.addresses, device);
}

/* Each as if it had been freed, however often it was opened; a few at a time, for the lock is not
 * held meanwhile. */
/* Memory of the primary context stays. */
void alloc_context_gone(CUcontext context) {
    if (!recording_is_on())
        return;
    context_gone(context);
    uint64_t leaving[64];
    size_t count;
    do {
        count = 0;
        lock_take(&self.lock);
        for (EACH_ENTRY(entry, &self.addresses))
            if (entry->context == (uint64_t)(uintptr_t)context && count < ARRAY_LENGTH(leaving))
                leaving[count++] = entry->key;
        lock_give(&self.lock);
        for (size_t i = 0; i < count; i++) {
            struct alloc_freed taken;
            do {
                alloc_free_begin(leaving[i], &taken);
                if (taken.known) /* else another thread freed it meanwhile */
                    alloc_free_commit(&taken);
            } while (taken.shared);
        }
    } while (count > 0);
}
