/* fake_cuda.c: see fake_cuda.h. Memory is a number of slots of equal size in an invented address
 * space; the slot freed last is handed out first. A wrong use is an abort: the test is wrong
 * then. */
#include "fake_cuda.h"
#include "fake_install.h"

#include "hook/hook.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8192, HANDLES = 4096 };
#define BASE           ((uint64_t)0x7f0000000000)
#define SLOT_BYTES     ((uint64_t)8 << 20)
#define IMPORTED_BYTES ((uint64_t)4 << 20)
#define TOTAL_BYTES    ((uint64_t)2 << 30)

enum kind { NOTHING, DEVICE, POOL, MANAGED, PINNED, IMPORTED, ADDRESS };

struct slot {
    enum kind kind;
    int device;
    uint64_t bytes;
    unsigned mapped; /* index of the physical memory, 0: none */
    unsigned opened; /* how many times more than once: imported memory */
};

struct physical {
    uint64_t bytes;
    int device;
    unsigned references, mappings;
    unsigned number; /* by which it is known while it has references */
};

static struct {
    pthread_mutex_t lock;
    struct slot slots[SLOTS];
    unsigned free_slots[SLOTS], free_slot_count;
    struct physical physical[HANDLES];
    unsigned free_physical[HANDLES], free_physical_count;
    unsigned of_number[HANDLES];
    unsigned free_numbers[HANDLES], free_number_count;
    struct fake_sums sums[FAKE_DEVICES];
    uint64_t others[FAKE_DEVICES];
    uint64_t named; /* the address of the memory that has a name, while it is open */
    _Atomic unsigned failures;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int current_device;
static _Thread_local unsigned random_state = 1;

unsigned fake_random(unsigned limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

void fake_seed(unsigned seed) {
    random_state = seed * 2654435761u + 1;
}

void fake_set_failures(unsigned percent) {
    self.failures = percent;
}

void fake_set_others(int device, uint64_t bytes) {
    pthread_mutex_lock(&self.lock);
    self.others[device] = bytes;
    pthread_mutex_unlock(&self.lock);
}

void fake_set_device(int device) {
    current_device = device;
}

static bool fails(void) {
    return fake_random(100) < self.failures;
}

static void need(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "fake_cuda: %s\n", what);
    abort();
}

static uint64_t *sum_of(int device, enum kind kind) {
    struct fake_sums *sums = &self.sums[device];
    uint64_t *const of[] = {NULL,          &sums->device,   &sums->pool,   &sums->managed,
                            &sums->pinned, &sums->imported, &sums->address};
    return of[kind];
}

static struct slot *slot_at(uint64_t address) {
    uint64_t index = (address - BASE) / SLOT_BYTES;
    need(address >= BASE && index < SLOTS && (address - BASE) % SLOT_BYTES == 0,
         "an address that was never handed out");
    return &self.slots[index];
}

static uint64_t allocate_locked(enum kind kind, uint64_t bytes) {
    need(bytes <= SLOT_BYTES, "too large");
    need(self.free_slot_count > 0, "all slots are in use");
    unsigned index = self.free_slots[--self.free_slot_count];
    self.slots[index] = (struct slot){kind, current_device, bytes, 0, 0};
    *sum_of(current_device, kind) += bytes;
    return BASE + index * SLOT_BYTES;
}

static uint64_t used(int device) {
    const struct fake_sums *sums = &self.sums[device];
    return sums->device + sums->pool + sums->physical + self.others[device];
}

static bool others_are_in_the_way(uint64_t bytes) {
    if (!self.others[current_device] || used(current_device) + bytes <= TOTAL_BYTES)
        return false;
    self.others[current_device] /= 2;
    return true;
}

static CUresult allocate(enum kind kind, uint64_t bytes, uint64_t *address) {
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&self.lock);
    bool refused = others_are_in_the_way(bytes);
    if (!refused)
        *address = allocate_locked(kind, bytes);
    pthread_mutex_unlock(&self.lock);
    return refused ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static void drop(struct slot *slot) {
    *sum_of(slot->device, slot->kind) -= slot->bytes;
    slot->kind = NOTHING;
    self.free_slots[self.free_slot_count++] = (unsigned)(slot - self.slots);
}

/* The address is free for others before this returns, and often somebody else runs first. */
static CUresult give_back(uint64_t address, unsigned kinds) {
    if (!address)
        return CUDA_SUCCESS;
    if (fails()) {
        sched_yield(); /* others work with the address while vramgc believes it is gone */
        return CUDA_ERROR_UNKNOWN;
    }
    pthread_mutex_lock(&self.lock);
    struct slot *slot = slot_at(address);
    need(slot->kind && (kinds & 1u << slot->kind), "freed by the wrong function, or twice");
    need(!slot->mapped, "an address range is freed while it is mapped");
    if (slot->opened)
        slot->opened--;
    else
        drop(slot);
    pthread_mutex_unlock(&self.lock);
    if (fake_random(2))
        sched_yield();
    return CUDA_SUCCESS;
}

/* --- the driver --- */

#define FREEABLE (1u << DEVICE | 1u << POOL | 1u << MANAGED)

static CUresult fake_cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    uint64_t address;
    CUresult result = allocate(DEVICE, n, &address);
    if (result == CUDA_SUCCESS)
        *p = address;
    return result;
}

static CUresult fake_cuMemFree_v2(CUdeviceptr p) {
    return give_back(p, FREEABLE);
}

static CUresult fake_cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned f) {
    uint64_t address;
    CUresult result = allocate(MANAGED, n, &address);
    (void)f;
    if (result == CUDA_SUCCESS)
        *p = address;
    return result;
}

static CUresult fake_cuMemHostAlloc(void **p, size_t n, unsigned f) {
    uint64_t address;
    CUresult result = allocate(PINNED, n, &address);
    (void)f;
    if (result == CUDA_SUCCESS)
        *p = (void *)(uintptr_t)address;
    return result;
}

static CUresult fake_cuMemFreeHost(void *p) {
    return give_back((uint64_t)(uintptr_t)p, 1u << PINNED);
}

static CUresult fake_cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s) {
    uint64_t address;
    CUresult result = allocate(POOL, n, &address);
    (void)s;
    if (result == CUDA_SUCCESS)
        *p = address;
    return result;
}

static CUresult fake_cuMemFreeAsync(CUdeviceptr p, CUstream s) {
    (void)s;
    return give_back(p, FREEABLE);
}

/* Memory that is open already is opened once more, at its address. */
static bool open_again(CUdeviceptr *p) {
    bool again = false;
    pthread_mutex_lock(&self.lock);
    for (unsigned i = SLOTS - 600 + fake_random(300); i < SLOTS && !again; i++) {
        struct slot *slot = &self.slots[i];
        again = slot->kind == IMPORTED && slot->device == current_device;
        if (again) {
            slot->opened++;
            *p = BASE + i * SLOT_BYTES;
        }
    }
    pthread_mutex_unlock(&self.lock);
    if (fake_random(2))
        sched_yield();
    return again;
}

/* Memory with a name is the same for all who open it. */
static uint64_t open_named(void) {
    pthread_mutex_lock(&self.lock);
    struct slot *slot = self.named ? slot_at(self.named) : NULL;
    if (slot && slot->kind == IMPORTED)
        slot->opened++;
    else
        self.named = allocate_locked(IMPORTED, IMPORTED_BYTES);
    uint64_t address = self.named;
    pthread_mutex_unlock(&self.lock);
    return address;
}

static CUresult fake_cuIpcOpenMemHandle_v2(CUdeviceptr *p, CUipcMemHandle h, unsigned f) {
    uint64_t address;
    (void)f;
    if (h.reserved[0]) {
        *p = open_named();
        return CUDA_SUCCESS;
    }
    if (fake_random(2) && open_again(p))
        return CUDA_SUCCESS;
    CUresult result = allocate(IMPORTED, IMPORTED_BYTES, &address);
    if (result == CUDA_SUCCESS)
        *p = address;
    return result;
}

static CUresult fake_cuIpcCloseMemHandle(CUdeviceptr p) {
    return give_back(p, 1u << IMPORTED);
}

static CUresult fake_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n, CUdeviceptr p) {
    pthread_mutex_lock(&self.lock);
    *base = p;
    *n = slot_at(p)->bytes;
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr hint,
                                         unsigned long long f) {
    uint64_t address;
    CUresult result = allocate(ADDRESS, n, &address);
    (void)align;
    (void)hint;
    (void)f;
    if (result == CUDA_SUCCESS)
        *p = address;
    return result;
}

static CUresult fake_cuMemAddressFree(CUdeviceptr p, size_t n) {
    (void)n;
    return give_back(p, 1u << ADDRESS);
}

static CUresult fake_cuMemCreate(CUmemGenericAllocationHandle *h, size_t n,
                                 const CUmemAllocationProp *d, unsigned long long f) {
    (void)f;
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&self.lock);
    need(self.free_physical_count && self.free_number_count, "all handles are in use");
    unsigned index = self.free_physical[--self.free_physical_count];
    unsigned number = self.free_numbers[--self.free_number_count];
    self.physical[index] = (struct physical){n, d->location.id, 1, 0, number};
    self.of_number[number] = index;
    self.sums[d->location.id].physical += n;
    *h = number;
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static void drop_physical(unsigned index) {
    struct physical *physical = &self.physical[index];
    if (physical->references || physical->mappings)
        return;
    self.sums[physical->device].physical -= physical->bytes;
    self.free_physical[self.free_physical_count++] = index;
}

static CUresult fake_cuMemRelease(CUmemGenericAllocationHandle h) {
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    pthread_mutex_lock(&self.lock);
    unsigned index = self.of_number[h];
    need(index && self.physical[index].references, "a handle is released twice");
    if (--self.physical[index].references == 0) {
        self.of_number[h] = 0;
        self.free_numbers[self.free_number_count++] = (unsigned)h;
        drop_physical(index);
    }
    pthread_mutex_unlock(&self.lock);
    if (fake_random(2))
        sched_yield();
    return CUDA_SUCCESS;
}

static CUresult fake_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *p) {
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    pthread_mutex_lock(&self.lock);
    unsigned index = slot_at((uint64_t)(uintptr_t)p)->mapped;
    need(index != 0, "a handle is asked of what is not mapped");
    struct physical *physical = &self.physical[index];
    if (physical->references++ == 0) {
        physical->number = self.free_numbers[--self.free_number_count];
        self.of_number[physical->number] = index;
    }
    *h = physical->number;
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_cuMemMap(CUdeviceptr p, size_t n, size_t offset,
                              CUmemGenericAllocationHandle h, unsigned long long f) {
    (void)n;
    (void)offset;
    (void)f;
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    pthread_mutex_lock(&self.lock);
    struct slot *slot = slot_at(p);
    need(slot->kind == ADDRESS && !slot->mapped && self.of_number[h], "a wrong mapping");
    slot->mapped = self.of_number[h];
    self.physical[slot->mapped].mappings++;
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_cuMemUnmap(CUdeviceptr p, size_t n) {
    (void)n;
    if (fails())
        return CUDA_ERROR_UNKNOWN;
    pthread_mutex_lock(&self.lock);
    struct slot *slot = slot_at(p);
    unsigned index = slot->mapped;
    need(index != 0, "unmapped twice");
    slot->mapped = 0;
    self.physical[index].mappings--;
    drop_physical(index);
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *d,
                                    size_t count) {
    (void)p;
    (void)n;
    (void)d;
    (void)count;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* Everything on the device goes at once. */
static CUresult fake_cuDevicePrimaryCtxReset_v2(CUdevice d) {
    pthread_mutex_lock(&self.lock);
    for (unsigned i = 0; i < SLOTS; i++)
        if (self.slots[i].kind && self.slots[i].device == d) {
            unsigned index = self.slots[i].mapped;
            self.slots[i].mapped = 0;
            if (index)
                self.physical[index].mappings = 0;
            drop(&self.slots[i]);
        }
    for (unsigned i = 1; i < HANDLES; i++) {
        struct physical *physical = &self.physical[i];
        if (!physical->bytes || physical->device != d)
            continue;
        if (physical->references) {
            self.of_number[physical->number] = 0;
            self.free_numbers[self.free_number_count++] = physical->number;
            physical->references = 0;
            drop_physical(i);
        }
        physical->bytes = 0;
    }
    self.sums[d].physical = 0;
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_cuMemGetInfo_v2(size_t *free, size_t *total) {
    pthread_mutex_lock(&self.lock);
    *total = TOTAL_BYTES;
    *free = TOTAL_BYTES - used(current_device);
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_cuDriverGetVersion(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}

static CUresult fake_cuDeviceGetName(char *name, int n, CUdevice d) {
    snprintf(name, (size_t)n, "Fake %d", d);
    return CUDA_SUCCESS;
}

static CUresult fake_cuDeviceTotalMem_v2(size_t *n, CUdevice d) {
    (void)d;
    *n = TOTAL_BYTES;
    return CUDA_SUCCESS;
}

static CUresult fake_cuCtxGetDevice(CUdevice *d) {
    *d = current_device;
    return CUDA_SUCCESS;
}

static CUresult fake_cuCtxGetCurrent(CUcontext *c) {
    *c = (CUcontext)(uintptr_t)(0x100 + current_device);
    return CUDA_SUCCESS;
}

static CUresult fake_cuCtxSetCurrent(CUcontext c) {
    current_device = (int)((uintptr_t)c - 0x100);
    return CUDA_SUCCESS;
}

struct fake_sums fake_sums(int device) {
    pthread_mutex_lock(&self.lock);
    struct fake_sums sums = self.sums[device];
    pthread_mutex_unlock(&self.lock);
    return sums;
}

static void install_driver(void) {
    INSTALL(cuMemAlloc_v2);
    INSTALL(cuMemFree_v2);
    INSTALL(cuMemAllocManaged);
    INSTALL(cuMemHostAlloc);
    INSTALL(cuMemFreeHost);
    INSTALL(cuMemAllocAsync);
    INSTALL(cuMemFreeAsync);
    INSTALL(cuIpcOpenMemHandle_v2);
    INSTALL(cuIpcCloseMemHandle);
    INSTALL(cuMemGetAddressRange_v2);
    INSTALL(cuMemAddressReserve);
    INSTALL(cuMemAddressFree);
    INSTALL(cuMemCreate);
    INSTALL(cuMemRelease);
    INSTALL(cuMemRetainAllocationHandle);
    INSTALL(cuMemMap);
    INSTALL(cuMemUnmap);
    INSTALL(cuMemSetAccess);
    INSTALL(cuDevicePrimaryCtxReset_v2);
    INSTALL(cuMemGetInfo_v2);
    INSTALL(cuDriverGetVersion);
    INSTALL(cuDeviceGetName);
    INSTALL(cuDeviceTotalMem_v2);
    INSTALL(cuCtxGetDevice);
    INSTALL(cuCtxGetCurrent);
    INSTALL(cuCtxSetCurrent);
}

void fake_install(void) {
    for (unsigned i = 0; i < SLOTS; i++)
        self.free_slots[self.free_slot_count++] = i;
    for (unsigned i = 1; i < HANDLES; i++) {
        self.free_physical[self.free_physical_count++] = i;
        self.free_numbers[self.free_number_count++] = i;
    }
    install_driver();
    fake_install_runtime();
}
