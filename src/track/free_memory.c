/* free_memory.c: see free_memory.h. The books and the reading must be of one moment: what comes or
 * goes in between would be taken for another process's. */
#include "track/free_memory.h"

#include "card/generation.h"
#include "track/device.h"

/* How much a pool of the driver's keeps of what is given back to it is learnt only later. */
static uint64_t held_outside_pools(const struct device *device) {
    const struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t idle = __atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED);
    uint64_t paged = __atomic_load_n(&device->own_pool.used_bytes, __ATOMIC_RELAXED);
    uint64_t of_driver = minus_u64(figure_get(&stats->pool_bytes.current), paged);
    return minus_u64(figure_get(&stats->held_bytes.current), of_driver + idle);
}

/* Where the program has called for some of a pool since the driver was asked what the pool keeps,
 * it may keep more. */
static bool pool_is_known(const struct device *device) {
    uint64_t changes = __atomic_load_n(&device->pool.changes, __ATOMIC_ACQUIRE);
    uint64_t seen = __atomic_load_n(&device->pool.seen, __ATOMIC_RELAXED);
    return changes == seen;
}

/* Where another thread takes or gives memory meanwhile the reading says nothing of others. */
static void note_others(struct device *device, uint64_t used_bytes) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t held = figure_get(&stats->held_bytes.current);
    bool first = !figure_get(&stats->others_bytes.peak);
    if (first || (used_bytes >= held && pool_is_known(device)))
        gauge_set(&stats->others_bytes, minus_u64(used_bytes, held));
}

static uint64_t used_bytes(const struct meminfo *read) {
    return minus_u64(read->total_bytes, read->free_bytes + read->headroom_bytes);
}

static void note_memory(struct device *device, const struct meminfo *read, uint64_t held_bytes) {
    int64_t spare_bytes = read->spare_bytes;
    atomic_store(&device->memory.spare_and_held, spare_bytes + (int64_t)held_bytes);
    atomic_store(&device->memory.limited_bytes, read->limited_bytes);
    atomic_store(&device->memory.headroom_bytes, read->headroom_bytes);
    atomic_store(&device->memory.total_bytes, read->total_bytes);
    atomic_store(&device->memory.cost_ns, read->age.cost_ns);
    atomic_store(&device->memory.beside, read->age.beside);
    atomic_store(&device->memory.read_ns, read->age.end_ns);
    figure_set(&device->out->total_bytes, read->total_bytes);
    gauge_set(&device->out->stats.used_bytes, used_bytes(read));
}

/* Another number after each call that takes or gives memory, and each page; 0: one is under way. */
static uint64_t moves(struct device *device) {
    uint64_t calls = moves_now(), pages = 1;
    if (device_engine(device))
        pages = vm_moves(device_engine(device));
    return calls && pages ? calls + pages : 0;
}

/* Of one moment, else of none. */
static bool count_held(void *of, struct card_own *own) {
    struct device *device = of;
    uint64_t before = moves(device);
    device_account_pages(device);
    own->bytes = held_outside_pools(device);
    own->moves = before == moves(device) ? before : 0;
    return true;
}

bool device_read_memory(struct device *device) {
    struct meminfo read;
    uint64_t held_bytes;
    if (meminfo_read_beside(&read, 2, count_held, device, &held_bytes) != CUDA_SUCCESS)
        return false;
    if (!read.age.beside)
        note_others(device, used_bytes(&read));
    note_memory(device, &read, held_bytes);
    return true;
}

bool device_memory_will_do(const struct device *device, enum meminfo_need need) {
    struct meminfo_age age = {atomic_load(&device->memory.read_ns),
                              atomic_load(&device->memory.cost_ns),
                              atomic_load(&device->memory.beside)};
    return meminfo_will_do(age, need);
}

bool device_know_memory(struct device *device, enum meminfo_need need) {
    return device_memory_will_do(device, need) ||
           (device == device_current() && device_read_memory(device));
}

static int64_t known_spare_bytes(const struct device *device) {
    return atomic_load(&device->memory.spare_and_held) - (int64_t)held_outside_pools(device);
}

uint64_t device_free_bytes(const struct device *device) {
    return at_least_0(known_spare_bytes(device));
}

uint64_t device_over_bytes(const struct device *device) {
    return at_least_0(-known_spare_bytes(device));
}

/* Before the driver was asked all would seem to be used. */
uint64_t device_used_bytes(const struct device *device) {
    if (!atomic_load(&device->memory.read_ns))
        return 0;
    return minus_u64(atomic_load(&device->memory.total_bytes), device_free_bytes(device));
}

void device_publish_used(struct device *device) {
    uint64_t headroom = atomic_load(&device->memory.headroom_bytes);
    gauge_set(&device->out->stats.used_bytes, minus_u64(device_used_bytes(device), headroom));
}

void device_memory_info(const struct meminfo *told, uint64_t before) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (!device)
        return;
    struct meminfo read = *told;
    uint64_t held_bytes = held_outside_pools(device);
    /* Where there are pages some may have come. */
    read.age.beside = device_engine(device) || !generation_same(before, moves_now());
    if (!read.age.beside)
        note_others(device, used_bytes(told));
    note_memory(device, &read, held_bytes);
}
