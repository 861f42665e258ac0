/* allocator.c: see allocator.h. One lock for each device, held during every call, as in PyTorch. */
#include "allocator.h"

#include "cuda/cuda_api.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SEGMENTS = 512, BLOCKS = 4, EVENTS = 4 };

enum state { FREE, ALLOCATED, PENDING };

struct block {
    enum state state;
    unsigned events;
    uintptr_t event[EVENTS];
};

struct segment {
    char *address;
    unsigned stream;
    struct block blocks[BLOCKS];
};

static struct device {
    pthread_mutex_t lock;
    struct segment segments[SEGMENTS];
    uint64_t ooms;
} devices[ALLOCATOR_DEVICES] = {{.lock = PTHREAD_MUTEX_INITIALIZER},
                                {.lock = PTHREAD_MUTEX_INITIALIZER}};

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes, size_t allocated,
                                                           size_t reserved, uint64_t device);
void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, size_t allocated,
                                                         size_t reserved, uint64_t device);

/* A c10::Device: type CUDA, then the index; the rest of the register is rubbish. */
static uint64_t c10_device(int device) {
    return 0xabcd0000u | (uint64_t)device << 8 | 1;
}

static void report(int device, void *p, int64_t bytes) {
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(p, bytes, 0, 0, c10_device(device));
}

static bool can_go(const struct segment *segment) {
    for (int i = 0; i < BLOCKS; i++)
        if (segment->blocks[i].state != FREE)
            return false;
    return segment->address != NULL && segment->stream != ALLOCATOR_PRIVATE;
}

static void release_cached(struct device *device) {
    for (int i = 0; i < SEGMENTS; i++)
        if (can_go(&device->segments[i]) && cudaFree(device->segments[i].address) == cudaSuccess)
            device->segments[i].address = NULL;
}

static void process_events(struct block *block) {
    for (unsigned i = 0; i < block->events;) {
        if (cudaEventQuery((cudaEvent_t)block->event[i]) == cudaSuccess)
            block->event[i] = block->event[--block->events];
        else
            i++;
    }
    if (!block->events)
        block->state = FREE;
}

static void *find_free(struct device *device, unsigned stream) {
    for (int i = 0; i < SEGMENTS; i++) {
        if (!device->segments[i].address || device->segments[i].stream != stream)
            continue;
        for (int b = 0; b < BLOCKS; b++) {
            struct block *block = &device->segments[i].blocks[b];
            if (block->state == PENDING)
                process_events(block);
            if (block->state == FREE) {
                block->state = ALLOCATED;
                return device->segments[i].address + (uint64_t)b * ALLOCATOR_BLOCK_BYTES;
            }
        }
    }
    return NULL;
}

/* Before each cudaMalloc PyTorch asks whether the stream is captured. */
static bool ask_driver(unsigned stream, void **p) {
    enum cudaStreamCaptureStatus status;
    cudaStreamIsCapturing((cudaStream_t)(uintptr_t)(stream * 16), &status);
    return cudaMalloc(p, ALLOCATOR_SEGMENT_BYTES) == cudaSuccess;
}

static bool add_segment(struct device *device, unsigned stream) {
    void *p = NULL;
    if (!ask_driver(stream, &p)) {
        release_cached(device);
        if (!ask_driver(stream, &p))
            return false;
    }
    for (int i = 0; i < SEGMENTS; i++)
        if (!device->segments[i].address) {
            device->segments[i] = (struct segment){.address = p, .stream = stream};
            return true;
        }
    return false;
}

void *allocator_take(int index, unsigned stream) {
    struct device *device = &devices[index];
    pthread_mutex_lock(&device->lock);
    void *p = find_free(device, stream);
    if (!p && add_segment(device, stream))
        p = find_free(device, stream);
    if (p) {
        report(index, p, (int64_t)ALLOCATOR_BLOCK_BYTES);
    } else {
        device->ooms++;
        _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE((int64_t)ALLOCATOR_BLOCK_BYTES, 0, 0,
                                                            c10_device(index));
    }
    pthread_mutex_unlock(&device->lock);
    return p;
}

static struct block *block_of(struct device *device, const char *p) {
    for (int i = 0; i < SEGMENTS; i++) {
        char *start = device->segments[i].address;
        if (start && p >= start && p < start + ALLOCATOR_SEGMENT_BYTES)
            return &device->segments[i].blocks[(uint64_t)(p - start) / ALLOCATOR_BLOCK_BYTES];
    }
    return NULL;
}

void allocator_give(int index, void *p, unsigned events) {
    static atomic_uintptr_t next_event = 0x5000;
    struct device *device = &devices[index];
    pthread_mutex_lock(&device->lock);
    struct block *block = block_of(device, p);
    for (block->events = 0; block->events < events && block->events < EVENTS; block->events++) {
        block->event[block->events] = atomic_fetch_add(&next_event, 8);
        cudaEventRecord((cudaEvent_t)block->event[block->events], NULL);
    }
    block->state = block->events ? PENDING : FREE;
    report(index, p, -(int64_t)ALLOCATOR_BLOCK_BYTES);
    pthread_mutex_unlock(&device->lock);
}

void allocator_empty_cache(int index) {
    pthread_mutex_lock(&devices[index].lock);
    release_cached(&devices[index]);
    pthread_mutex_unlock(&devices[index].lock);
}

void allocator_forget(int index) {
    pthread_mutex_lock(&devices[index].lock);
    for (int i = 0; i < SEGMENTS; i++)
        devices[index].segments[i].address = NULL;
    pthread_mutex_unlock(&devices[index].lock);
}

struct allocator_sums allocator_sums(int index) {
    struct device *device = &devices[index];
    struct allocator_sums sums = {.ooms = device->ooms};
    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < SEGMENTS; i++) {
        if (!device->segments[i].address)
            continue;
        sums.segments++;
        for (int b = 0; b < BLOCKS; b++) {
            sums.allocated_blocks += device->segments[i].blocks[b].state == ALLOCATED;
            sums.pending_blocks += device->segments[i].blocks[b].state == PENDING;
        }
    }
    pthread_mutex_unlock(&device->lock);
    return sums;
}
