/* stress.c: the library's own objects and a fake device in one program, for the sanitizers: eight
 * threads of random operations that randomly fail, addresses handed out again at once, blocks as
 * PyTorch's allocator makes them, the background thread, readers, and resets of a device. At the
 * end every sum must be exact. Arguments: FILE for the statistics, then the number of operations of
 * each thread. */
#include "allocator.h"
#include "check.h"
#include "fake_cuda.h"

#include "../seed.h"

#include "hook/hook.h"
#include "vramgc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, OBJECTS = 48, BLOCKS = 24, RESETS = 6 };

enum kind { NONE, DEVICE, POOL, MANAGED, PINNED, IMPORTED, MAPPED };

/* What one thread has. A reset of its device makes it worthless: generation tells. */
struct object {
    enum kind kind;
    int device;
    unsigned generation;
    uint64_t address;
    CUmemGenericAllocationHandle handle;
    bool has_handle, mapped;
};

struct block {
    void *address;
    int device;
    unsigned generation;
};

struct worker {
    pthread_t thread;
    unsigned seed;
    struct object objects[OBJECTS];
    struct block blocks[BLOCKS];
};

static struct {
    pthread_rwlock_t reset_lock; /* a reset of a device in use is an error of the program */
    unsigned generation[FAKE_DEVICES];
    unsigned operations;
    atomic_bool done;
    pthread_barrier_t together;
    struct worker workers[THREADS];
} self = {.reset_lock = PTHREAD_RWLOCK_INITIALIZER};

/* --- allocations by either API --- */

static bool take(struct object *object, enum kind kind, uint64_t bytes) {
    bool runtime = fake_random(2);
    CUipcMemHandle ipc = {{0}};
    void *p = NULL;
    CUdeviceptr *address = (CUdeviceptr *)&p;
    int result = 1;
    switch (kind) {
    case DEVICE:
        result = runtime ? (int)cudaMalloc(&p, bytes) : (int)cuMemAlloc_v2(address, bytes);
        break;
    case POOL:
        result = runtime ? (int)cudaMallocAsync(&p, bytes, NULL)
                         : (int)cuMemAllocAsync(address, bytes, NULL);
        break;
    case MANAGED:
        result = runtime ? (int)cudaMallocManaged(&p, bytes, 1)
                         : (int)cuMemAllocManaged(address, bytes, 1);
        break;
    case PINNED:
        result = runtime ? (int)cudaHostAlloc(&p, bytes, 0) : (int)cuMemHostAlloc(&p, bytes, 0);
        break;
    case IMPORTED:
        result = (int)cuIpcOpenMemHandle_v2(address, ipc, 0);
        break;
    default:
        return false;
    }
    object->address = (uint64_t)(uintptr_t)p;
    return result == 0;
}

static bool give(const struct object *object) {
    bool runtime = fake_random(2);
    void *p = (void *)(uintptr_t)object->address;
    switch (object->kind) {
    case PINNED:
        return (runtime ? (int)cudaFreeHost(p) : (int)cuMemFreeHost(p)) == 0;
    case IMPORTED:
        return cuIpcCloseMemHandle(object->address) == CUDA_SUCCESS;
    case POOL:
        if (fake_random(2))
            return (runtime ? (int)cudaFreeAsync(p, NULL)
                            : (int)cuMemFreeAsync(object->address, NULL)) == 0;
        return (runtime ? (int)cudaFree(p) : (int)cuMemFree_v2(object->address)) == 0;
    default:
        return (runtime ? (int)cudaFree(p) : (int)cuMemFree_v2(object->address)) == 0;
    }
}

/* --- virtual memory, in every order that is allowed --- */

static bool make_mapped(struct object *object, uint64_t bytes) {
    CUmemAllocationProp properties;
    CUdeviceptr address = 0;
    memset(&properties, 0, sizeof properties);
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = object->device;
    if (cuMemAddressReserve(&address, bytes, 0, 0, 0) != CUDA_SUCCESS)
        return false;
    object->address = address;
    object->has_handle = cuMemCreate(&object->handle, bytes, &properties, 0) == CUDA_SUCCESS;
    object->mapped =
        object->has_handle && cuMemMap(address, bytes, 0, object->handle, 0) == CUDA_SUCCESS;
    return true;
}

/* One step towards its end, or a reference more. Whether nothing is left. */
static bool step_mapped(struct object *object) {
    if (object->mapped && !object->has_handle && fake_random(3) == 0) {
        void *p = (void *)(uintptr_t)object->address;
        object->has_handle = cuMemRetainAllocationHandle(&object->handle, p) == CUDA_SUCCESS;
    } else if (object->has_handle && fake_random(2)) {
        object->has_handle = cuMemRelease(object->handle) != CUDA_SUCCESS;
    } else if (object->mapped) {
        object->mapped = cuMemUnmap(object->address, 2 * MIB) != CUDA_SUCCESS;
    } else if (!object->has_handle) {
        return cuMemAddressFree(object->address, 2 * MIB) == CUDA_SUCCESS;
    }
    return false;
}

static void create(struct object *object) {
    enum kind kind = (enum kind)(DEVICE + fake_random(MAPPED));
    object->device = (int)fake_random(FAKE_DEVICES);
    object->generation = self.generation[object->device];
    object->has_handle = object->mapped = false;
    fake_set_device(object->device);
    uint64_t bytes = kind == MAPPED ? 2 * MIB : 512 * (1 + fake_random(8192));
    bool made = kind == MAPPED ? make_mapped(object, bytes) : take(object, kind, bytes);
    object->kind = made ? kind : NONE;
}

static void change(struct object *object) {
    if (object->kind && object->generation != self.generation[object->device])
        object->kind = NONE; /* a reset took it */
    if (!object->kind) {
        create(object);
        return;
    }
    fake_set_device((int)fake_random(FAKE_DEVICES)); /* frees need not know whose it is */
    if (object->kind == MAPPED ? step_mapped(object) : give(object))
        object->kind = NONE;
}

static void change_block(struct block *block) {
    if (block->address && block->generation != self.generation[block->device])
        block->address = NULL;
    if (block->address) {
        allocator_give(block->device, block->address, fake_random(4) ? 0 : 1 + fake_random(4));
        block->address = NULL;
        return;
    }
    block->device = (int)fake_random(FAKE_DEVICES);
    block->generation = self.generation[block->device];
    fake_set_device(block->device);
    block->address = allocator_take(block->device, fake_random(6));
}

static void *work(void *argument) {
    struct worker *worker = argument;
    fake_seed((unsigned)seed_from(worker->seed));
    for (unsigned i = 0; i < self.operations; i++) {
        pthread_rwlock_rdlock(&self.reset_lock);
        unsigned choice = fake_random(100);
        if (choice < 55)
            change(&worker->objects[fake_random(OBJECTS)]);
        else if (choice < 97)
            change_block(&worker->blocks[fake_random(BLOCKS)]);
        else if (choice < 98)
            allocator_empty_cache((int)fake_random(FAKE_DEVICES));
        else if (choice < 99)
            cudaFree(NULL);
        else
            cudaMemGetInfo(&(size_t){0}, &(size_t){0});
        pthread_rwlock_unlock(&self.reset_lock);
    }
    return NULL;
}

/* All threads open the same memory of another process at the same moment and close it again: it
 * counts once. */
static void *open_together(void *argument) {
    const CUipcMemHandle named = {{1}};
    (void)argument;
    fake_set_device(1);
    for (unsigned i = 0; i < self.operations / 10; i++) {
        CUdeviceptr address;
        pthread_barrier_wait(&self.together);
        CHECK(cuIpcOpenMemHandle_v2(&address, named, 0) == CUDA_SUCCESS);
        pthread_barrier_wait(&self.together);
        CHECK(cuIpcCloseMemHandle(address) == CUDA_SUCCESS);
    }
    return NULL;
}

/* --- those who look on --- */

/* The blocks of a segment tile it, at every moment. */
static void check_tiles(const struct vramgc_block *blocks, size_t count) {
    for (size_t i = 0; i < count;) {
        uint64_t segment = blocks[i].segment_address, bytes = 0;
        uint64_t segment_bytes = blocks[i].segment_bytes;
        for (; i < count && blocks[i].segment_address == segment; i++) {
            CHECK(blocks[i].address == segment + bytes);
            bytes += blocks[i].bytes;
        }
        CHECK(bytes == segment_bytes && bytes == ALLOCATOR_SEGMENT_BYTES);
    }
}

static void look_on(int device, const char *report) {
    static struct vramgc_block blocks[4096];
    struct vramgc_snapshot snapshot = {.size = sizeof snapshot};
    size_t count = 0;
    if (vramgc_snapshot(device, &snapshot))
        return;
    CHECK(vramgc_blocks(device, blocks, 4096, &count) == 0 && count <= 4096);
    check_tiles(blocks, count);
    vramgc_mark("looking on");
    vramgc_reclaim(device);
    if (fake_random(20) == 0) {
        CHECK(vramgc_write_report(report) == 0);
        unlink(report);
    }
}

static void reset(int device) {
    pthread_rwlock_wrlock(&self.reset_lock);
    CHECK(cuDevicePrimaryCtxReset_v2(device) == CUDA_SUCCESS);
    allocator_forget(device);
    self.generation[device]++;
    pthread_rwlock_unlock(&self.reset_lock);
}

/* The driver refuses because of another process, which gives way; nothing goes back, though vramgc
 * sees an idle segment. What is asked for again must not be refused on purpose: it would be an
 * error that the program has without vramgc not. */
static void ask_for_the_last_time(void) {
    fake_set_device(0);
    void *kept = allocator_take(0, ALLOCATOR_PRIVATE);
    allocator_give(0, kept, 0);
    fake_set_others(0, ((uint64_t)2 << 30) - ALLOCATOR_SEGMENT_BYTES);
    void *block = allocator_take(0, 0);
    if (CHECK(block != NULL))
        allocator_give(0, block, 0);
    fake_set_others(0, 0);
    reset(0);
}

static void *watch_all(void *report) {
    unsigned looks = 0;
    fake_seed((unsigned)seed_from(4711));
    while (!self.done) {
        look_on((int)(looks % FAKE_DEVICES), report);
        if (++looks % 64 == 0 && looks / 64 <= RESETS)
            reset((int)fake_random(FAKE_DEVICES));
        usleep(1000);
    }
    return NULL;
}

/* --- the end: every sum is exact --- */

static void equal(const char *what, int device, uint64_t got, uint64_t expected) {
    char text[160];
    snprintf(text, sizeof text, "device %d: %s is %llu, expected %llu", device, what,
             (unsigned long long)got, (unsigned long long)expected);
    check_that(__FILE__, __LINE__, got == expected, text);
}

static uint64_t held_by_libraries(const struct vramgc_device *device) {
    uint64_t sum = 0;
    for (size_t i = 1; i < VRAMGC_MAX_LIBRARIES; i++)
        sum += device->of_libraries[i].current;
    return sum;
}

static void check_device(int device, const struct vramgc_device *of) {
    const struct vramgc_device_stats *stats = &of->stats;
    struct fake_sums truth = fake_sums(device);
    struct allocator_sums blocks = allocator_sums(device);
    uint64_t reserved = blocks.segments * ALLOCATOR_SEGMENT_BYTES;
#define EQUAL(name, expected) equal(#name, device, stats->name.current, expected)
    EQUAL(held_bytes, truth.device + truth.pool + truth.physical);
    EQUAL(other_bytes, truth.device + truth.physical - reserved);
    equal("held by libraries", device, held_by_libraries(of), stats->other_bytes.current);
    EQUAL(pool_bytes, truth.pool);
    EQUAL(managed_bytes, truth.managed);
    EQUAL(pinned_bytes, truth.pinned);
    EQUAL(imported_bytes, truth.imported);
    EQUAL(address_bytes, truth.address);
    EQUAL(reserved_bytes, reserved);
    EQUAL(segments, blocks.segments);
    EQUAL(blocks, blocks.allocated_blocks);
    EQUAL(allocated_bytes, blocks.allocated_blocks * ALLOCATOR_BLOCK_BYTES);
    EQUAL(active_bytes, (blocks.allocated_blocks + blocks.pending_blocks) * ALLOCATOR_BLOCK_BYTES);
    equal("ooms", device, stats->ooms, blocks.ooms);
#undef EQUAL
}

/* What was given back to a pool is held until vramgc's own thread has looked: the fake pool keeps
 * nothing. */
static void await_look(int device, const struct vramgc_device_stats *stats) {
    for (int i = 0; i < 5000; i++) {
        struct fake_sums truth = fake_sums(device);
        if (stats->held_bytes.current == truth.device + truth.pool + truth.physical)
            return;
        usleep(1000);
    }
}

static void check_all(void) {
    const struct vramgc_file *file = check_file();
    if (!CHECK(file != NULL))
        return;
    for (int device = 0; device < FAKE_DEVICES; device++) {
        await_look(device, &file->devices[device].stats);
        check_device(device, &file->devices[device]);
    }
    equal("lost_frees", -1, file->process.lost_frees, 0);
    equal("unknown_frees", -1, file->process.unknown_frees, 0);
    equal("unmatched_blocks", -1, file->process.unmatched_blocks, 0);
    equal("internal_errors", -1, file->process.internal_errors, 0);
}

/* Gives everything back; failures are off now. */
static void clear(struct worker *worker) {
    for (int i = 0; i < OBJECTS; i++)
        while (worker->objects[i].kind &&
               worker->objects[i].generation == self.generation[worker->objects[i].device])
            change(&worker->objects[i]);
    for (int i = 0; i < BLOCKS; i++)
        if (worker->blocks[i].address &&
            worker->blocks[i].generation == self.generation[worker->blocks[i].device])
            change_block(&worker->blocks[i]);
    for (int device = 0; device < FAKE_DEVICES; device++)
        allocator_empty_cache(device);
}

static void set_up(const char *path, const char *operations) {
    setenv("VRAMGC_OUT", path, 1);
    setenv("VRAMGC_MODE", "flush", 0);
    setenv("VRAMGC_THRESHOLD", "1", 1);
    setenv("VRAMGC_COOLDOWN", "0", 1);
    setenv("VRAMGC_TEST_HYSTERESIS", "0", 1);
    setenv("VRAMGC_TEST_MIN_GAIN", "0", 1);
    setenv("VRAMGC_TEST_SAMPLE", "1ms", 1);
    self.operations = (unsigned)atoi(operations);
    pthread_barrier_init(&self.together, NULL, THREADS);
    fake_install();
    ask_for_the_last_time();
    fake_set_failures(10);
}

static void run_all(void *(*function)(void *)) {
    for (unsigned i = 0; i < THREADS; i++) {
        self.workers[i].seed = i + 1;
        pthread_create(&self.workers[i].thread, NULL, function, &self.workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(self.workers[i].thread, NULL);
}

int main(int count, char **arguments) {
    char report[512];
    pthread_t watcher;
    if (count != 3)
        return 2;
    set_up(arguments[1], arguments[2]);
    snprintf(report, sizeof report, "%s.report", arguments[1]);
    pthread_create(&watcher, NULL, watch_all, report);
    run_all(work);
    self.done = true;
    pthread_join(watcher, NULL);
    check_all();
    fake_set_failures(0);
    for (unsigned i = 0; i < THREADS; i++)
        clear(&self.workers[i]);
    check_all();
    run_all(open_together);
    check_all();
    printf("soft_ooms %llu and %llu\n",
           (unsigned long long)check_file()->devices[0].stats.soft_ooms,
           (unsigned long long)check_file()->devices[1].stats.soft_ooms);
    return check_result("stress");
}
