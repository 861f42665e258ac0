/* device.c: the devices in use, each with its shadow heap, its lock and its place in the file. A
 * device comes up at its first event and never goes away. */
#include "track/device.h"

#include "base/debug.h"
#include "base/text.h"
#include "card/generation.h"

static struct {
    struct lock lock; /* bringing a device up */
    struct device devices[VRAMGC_MAX_DEVICES];
    _Atomic(CUcontext) primary[VRAMGC_MAX_DEVICES];
} self;
CHILD_OPENS(self.lock);
CHILD_OPENS_EACH(self.devices);

atomic_int recording_state;

/* The driver's words on a device, asked before any lock is taken. */
struct about {
    char name[64];
    char bus_id[16];
    int major, minor;
};

static struct about ask_about(CUdevice device) {
    struct about about = {{0}, {0}, 0, 0};
    real_cuDeviceGetName_t get_name = REAL(cuDeviceGetName);
    real_cuDeviceGetPCIBusId_t get_bus = REAL(cuDeviceGetPCIBusId);
    real_cuDeviceGetAttribute_t get_attribute = REAL(cuDeviceGetAttribute);
    if (get_name)
        get_name(about.name, (int)sizeof about.name - 1, device);
    if (get_bus)
        get_bus(about.bus_id, (int)sizeof about.bus_id - 1, device);
    if (get_attribute) {
        get_attribute(&about.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
        get_attribute(&about.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    }
    return about;
}

static void read_total(struct device *device, unsigned index) {
    real_cuDeviceTotalMem_v2_t get_total = REAL(cuDeviceTotalMem_v2);
    size_t total = 0;
    if (get_total && get_total(&total, (CUdevice)index) == CUDA_SUCCESS) {
        total = limit_total(total);
        figure_set(&device->out->total_bytes, total);
        atomic_store(&device->memory.total_bytes, total);
    }
}

static bool bring_up(struct device *device, unsigned index) {
    struct vramgc_device *out = store_device(index);
    struct about about = ask_about((CUdevice)index);
    lock_take(&self.lock);
    if (!device->heap) {
        device->heap = heap_create();
        device->out = out;
        text_copy(out->name, sizeof out->name, about.name);
        text_copy(out->bus_id, sizeof out->bus_id, about.bus_id);
        out->compute_major = (uint32_t)about.major;
        out->compute_minor = (uint32_t)about.minor;
    }
    bool usable = device->heap != NULL;
    lock_give(&self.lock);
    if (usable)
        read_total(device, index);
    atomic_store_explicit(&device->ready, usable, memory_order_release);
    return usable;
}

struct device *device_at(unsigned index) {
    if (UNLIKELY(index >= VRAMGC_MAX_DEVICES)) {
        figure_add(&store_file()->process.internal_errors, 1);
        return NULL;
    }
    struct device *device = &self.devices[index];
    if (UNLIKELY(!atomic_load_explicit(&device->ready, memory_order_acquire)))
        return bring_up(device, index) ? device : NULL;
    return device;
}

struct device *device_if_ready(unsigned index) {
    if (index >= VRAMGC_MAX_DEVICES)
        return NULL;
    struct device *device = &self.devices[index];
    return atomic_load_explicit(&device->ready, memory_order_acquire) ? device : NULL;
}

struct device *device_next(const struct device *before) {
    unsigned index = before ? device_index(before) + 1 : 0;
    while (index < VRAMGC_MAX_DEVICES && !device_if_ready(index))
        index++;
    return device_if_ready(index);
}

/* A new thread has no context before its first call of the runtime that needs one, and PyTorch may
 * reserve the addresses of an expandable segment before that: then the runtime knows the device. */
static bool current_index(int *index) {
    real_cuCtxGetDevice_t of_context = REAL(cuCtxGetDevice);
    if (of_context && of_context(index) == CUDA_SUCCESS)
        return *index >= 0;
    real_cudaGetDevice_t of_runtime = REAL(cudaGetDevice); /* looked for only when needed */
    return of_runtime && of_runtime(index) == cudaSuccess && *index >= 0;
}

struct device *device_current(void) {
    int index;
    if (!current_index(&index))
        return NULL;
    struct device *device = device_at((unsigned)index);
    if (device && !__atomic_load_n(&device->context, __ATOMIC_RELAXED)) {
        CUcontext context = NULL;
        if (real_current_context(&context))
            __atomic_store_n(&device->context, context, __ATOMIC_RELAXED);
    }
    return device;
}

/* The engine counts its pages before they come; in held_bytes they are a moment later. */
uint64_t device_own_bytes(struct device *device) {
    const struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t held = figure_get(&stats->held_bytes.current);
    struct vm *vm = device_engine(device);
    if (!vm)
        return held;
    uint64_t counted = __atomic_load_n(&device->paging.held_bytes, __ATOMIC_RELAXED);
    return minus_u64(held, counted) + vm_figures(vm).physical_bytes;
}

bool device_own(struct card_own *own) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (device)
        *own = (struct card_own){device_index(device), device_own_bytes(device), moves_now()};
    return device != NULL;
}

unsigned device_index(const struct device *device) {
    return (unsigned)(device - self.devices);
}

void device_publish_blocks(struct device *device) {
    const struct heap_figures *figures = heap_figures(device->heap);
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t allocated = figures->allocated_bytes + device->pool.live_bytes;
    uint64_t live = minus_u64(allocated, figure_get(&stats->refused_block_bytes));
    gauge_set(&stats->allocated_bytes, allocated);
    gauge_set(&stats->live_bytes, live);
    growth_note(&device->growth, &device->out->floors, live, figure_get(&device->out->total_bytes));
    owners_note_top(&device->owners, live);
    owners_note_turns(&device->owners, device->out->floors.turns, &device->out->owners_grown);
    gauge_set(&stats->active_bytes, figures->active_bytes + device->pool.live_bytes);
    gauge_set(&stats->inactive_split_bytes, figures->inactive_split_bytes);
    gauge_set(&stats->releasable_bytes, figures->releasable_bytes);
    gauge_set(&stats->idle_bytes, figures->idle_bytes);
    gauge_set(&stats->blocks, figures->blocks + device->pool.blocks);
    CHECK_NOW_AND_THEN(heap_is_valid(device->heap));
}

void device_publish(struct device *device) {
    const struct heap_figures *figures = heap_figures(device->heap);
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t kept = device->pool.of_pytorch ? device->pool.idle_bytes : 0;
    if (device->pool.of_pytorch)
        kept += minus_u64(__atomic_load_n(&device->own_pool.page_bytes, __ATOMIC_RELAXED),
                          __atomic_load_n(&device->own_pool.used_bytes, __ATOMIC_RELAXED));
    gauge_set(&stats->reserved_bytes, figures->reserved_bytes + device->pool.live_bytes + kept);
    gauge_set(&stats->segments, figures->segments);
    device_publish_blocks(device);
}

/* Mode compact: also what an idle page cannot leave because of its neighbour in the same extent.
 * The lock is held. */
static uint64_t page_waste(const struct device *device, struct vm *vm) {
    const struct vramgc_device_stats *stats = &device->out->stats;
    struct vm_figures figures = vm_figures(vm);
    uint64_t elsewhere = minus_u64(figure_get(&stats->pool_bytes.current),
                                   __atomic_load_n(&device->own_pool.used_bytes, __ATOMIC_RELAXED));
    uint64_t live = minus_u64(figure_get(&stats->live_bytes.current), elsewhere);
    return minus_u64(figures.physical_bytes + figures.spilled_bytes,
                     figures.held_idle_bytes + live);
}

/* At most a ninth of the time is spent here; no figure is older than 10 ms, a tenth of
 * SAMPLE_NS. The lock is held. */
static void walk_holes(struct device *device) {
    enum { SHARE = 8, OLDEST_NS = 10 * MILLISECOND_NS };
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t start_ns = clock_ns();
    frag_measure(device->heap, &device->holes.figures);
    gauge_set(&stats->largest_hole_bytes, device->holes.figures.largest_hole_bytes);
    gauge_set(&stats->page_waste_bytes, device_pages(device)
                                            ? page_waste(device, device_pages(device))
                                            : device->holes.figures.page_waste_bytes);
    uint64_t end_ns = clock_ns();
    device->holes.until_ns = end_ns + min_u64(SHARE * (end_ns - start_ns), OLDEST_NS);
}

struct frag_figures device_measure_holes(struct device *device, bool now) {
    LOCKED(&device->lock);
    if (now || clock_ns() >= device->holes.until_ns)
        walk_holes(device);
    return device->holes.figures;
}

/* At the time of the timeline's point that the look belongs to: both then say the same. */
static bool note_who(struct device *device, const struct vramgc_owners *top, uint64_t step_ns) {
    uint64_t count = figure_get(&device->out->sample_count);
    struct vramgc_who point = {.time_ns =
                                   count ? device->out->samples[count - 1].time_ns : store_age_ns(),
                               .live_bytes = top->live_bytes,
                               .works = names_latest(),
                               .count = (uint32_t)min_u64(top->count, VRAMGC_WHO_OWNERS)};
    for (uint32_t i = 0; i < point.count; i++) {
        point.kib[i] = (uint32_t)(top->list[i].bytes / KIBIBYTE);
        point.sites[i] = (uint16_t)top->list[i].site;
    }
    return !names_latest() || store_who(device->out, step_ns, &point);
}

void device_list_owners(struct device *device, uint64_t step_ns) {
    const struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t events = figure_get(&stats->block_allocs) + figure_get(&stats->block_frees);
    if (device->listed_events == events && device->listed_rest)
        return;
    bool rests = device->listed_events == events;
    device->listed_events = events;
    lock_take(&device->lock);
    struct owners_lists top;
    owners_list_top(&device->owners, figure_get(&stats->live_bytes.current), &top);
    lock_give(&device->lock);
    if (top.sites.live_bytes > device->out->owners_at_peak.live_bytes) {
        owners_publish(&top.sites, &device->out->owners_at_peak);
        owners_publish(&top.calls, &device->out->calls_at_peak);
    }
    device->listed_rest = note_who(device, &top.sites, step_ns) && rests;
}

static void publish_oom_owners(struct device *device, const struct owners_lists *lists) {
    owners_publish(&lists->sites, &device->out->owners_at_oom);
    owners_publish(&lists->calls, &device->out->calls_at_oom);
}

void device_list_oom_owners(struct device *device, bool again) {
    struct owners_lists now;
    lock_take(&device->lock);
    owners_list_now(&device->owners, figure_get(&device->out->stats.live_bytes.current), &now);
    if (!again)
        device->oom_before =
            (struct owners_lists){device->out->owners_at_oom, device->out->calls_at_oom};
    lock_give(&device->lock);
    publish_oom_owners(device, &now);
}

void device_forget_oom_owners(struct device *device, bool even_alone) {
    if (even_alone || device->oom_before.sites.count)
        publish_oom_owners(device, &device->oom_before);
}

/* Whole numbers: two conversions and a division of doubles would take twice as long. */
void device_add_to_mean(struct device *device) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t live = figure_get(&stats->live_bytes.current);
    if (live < MEBIBYTE)
        return;
    uint64_t held =
        minus_u64(figure_get(&stats->held_bytes.current), figure_get(&stats->other_bytes.current));
    figure_bump(&stats->held_over_live_sum, (held * 1000 + live / 2) / live);
    figure_bump(&stats->held_over_live_events, 1);
    figure_bump(&stats->held_sum_kib, held / KIBIBYTE);
    figure_bump(&stats->live_sum_kib, live / KIBIBYTE);
}

struct device *device_of_memory(const CUmemAllocationProp *properties) {
    bool of_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return of_device ? device_if_ready((unsigned)properties->location.id) : NULL;
}

uint64_t device_releasable_bytes(const struct device *device) {
    return minus_u64(figure_get(&device->out->stats.releasable_bytes.current),
                     atomic_load_explicit(&device->pending_bytes, memory_order_relaxed));
}

/* --- its engine --- */

/* Without us they would be PyTorch's own. */
static void publish_steps(struct device *device, const struct vm_figures *figures) {
    struct vramgc_device_stats *stats = &device->out->stats;
    figure_set(&stats->handle_reuses, figures->reused);
    figure_add(&stats->driver_calls, figures->calls - device->paging.calls);
    device->paging.calls = figures->calls;
}

static void publish_pages(struct vramgc_device_stats *stats, const struct vm_figures *figures) {
    gauge_set(&stats->page_bytes, figures->physical_bytes);
    figure_set(&stats->page_maps, figures->maps);
    figure_set(&stats->page_unmaps, figures->unmaps);
    figure_set(&stats->page_waits, figures->waits);
    figure_set(&stats->page_calls, figures->calls);
    gauge_set(&stats->spilled_bytes, figures->spilled_bytes);
    figure_set(&stats->spilled_ns, figures->spilled_ns);
}

/* The driver takes what the card has not from what its pool keeps, and tells nobody. The lock is
 * held. */
static void pool_gives_way(struct device *device, uint64_t more_bytes) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t idle = device->pool.idle_bytes, total = atomic_load(&device->memory.total_bytes);
    uint64_t room = minus_u64(total, figure_get(&stats->others_bytes.current));
    uint64_t held = figure_get(&stats->held_bytes.current) + more_bytes;
    uint64_t gone = total ? min_u64(idle, minus_u64(held, room)) : 0;
    if (!gone)
        return;
    __atomic_store_n(&device->pool.idle_bytes, idle - gone, __ATOMIC_RELAXED);
    device_publish(device);
    gauge_subtract(&stats->held_bytes, gone);
}

void device_hold(struct device *device, uint64_t bytes) {
    if (UNLIKELY(__atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED))) {
        lock_take(&device->lock);
        pool_gives_way(device, bytes);
        lock_give(&device->lock);
    }
    gauge_add(&device->out->stats.held_bytes, bytes);
}

void device_account_pages(struct device *device) {
    struct vm *vm = device_engine(device);
    if (!vm)
        return;
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t changes = vm_changes(vm);
    if (LIKELY(changes ==
               atomic_load_explicit(&device->paging.changes_seen, memory_order_relaxed)) &&
        !figure_get(&stats->spilled_bytes.current))
        return; /* at most block events; how long anything is spilled grows by itself */
    LOCKED(&device->lock);
    struct vm_figures figures = vm_figures(vm);
    uint64_t now = figures.physical_bytes, before = device->paging.held_bytes;
    atomic_store_explicit(&device->paging.changes_seen, changes, memory_order_relaxed);
    __atomic_store_n(&device->paging.held_bytes, now, __ATOMIC_RELAXED);
    if (device_pages(device))
        publish_pages(stats, &figures);
    else
        publish_steps(device, &figures);
    pool_gives_way(device, minus_u64(now, before));
    gauge_add(&stats->held_bytes, minus_u64(now, before)); /* inside, for resets and each other */
    gauge_subtract(&stats->held_bytes, minus_u64(before, now));
}

uint64_t device_idle_page_bytes(struct device *device) {
    struct vm *vm = device_engine(device);
    return vm ? vm_figures(vm).held_idle_bytes : 0;
}

/* --- contexts; one that is about to go must not be used --- */

void context_primary_made(unsigned index, CUcontext context) {
    if (index < VRAMGC_MAX_DEVICES)
        atomic_store(&self.primary[index], context);
}

CUcontext context_primary(unsigned index) {
    return index < VRAMGC_MAX_DEVICES ? atomic_load(&self.primary[index]) : NULL;
}

bool context_primary_leave(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    CUcontext primary = device ? atomic_load(&self.primary[index]) : NULL;
    return primary && __atomic_compare_exchange_n(&device->context, &primary, NULL, false,
                                                  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void context_primary_stays(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    CUcontext none = NULL;
    if (device)
        __atomic_compare_exchange_n(&device->context, &none, atomic_load(&self.primary[index]),
                                    false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void context_gone(CUcontext context) {
    for (EACH_DEVICE(device)) {
        CUcontext gone = context;
        __atomic_compare_exchange_n(&device->context, &gone, NULL, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED);
    }
}
