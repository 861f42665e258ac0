/* host_memory.c: when the device is really full, up to so much physical memory comes from the host;
 * the device reaches it over the link. It must never be cached for the next block: a page that has
 * lost its place goes back to the host. */
#include "vm/vm_internal.h"

/* Handles of host memory carry this mark in the page table; real ones do not have the bit. */
#define HOST_MARK ((uint64_t)1 << 63)

bool vm_is_spilled(uint64_t handle) {
    return (handle & HOST_MARK) != 0;
}

uint64_t vm_real_handle(uint64_t handle) {
    return handle & ~HOST_MARK;
}

/* --- whether it can be done --- */

/* The node next to the device; 0 where there is but one, or the driver does not know. */
static int node_of(unsigned device) {
    real_cuDeviceGetAttribute_t get = REAL(cuDeviceGetAttribute);
    int node = -1;
    if (!get || get(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, (CUdevice)device) != CUDA_SUCCESS ||
        node < 0)
        return 0;
    return node;
}

static CUmemAllocationProp host_properties(int node) {
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node},
    };
    return properties;
}

bool vm_enable_spill(struct vm *vm, uint64_t bytes) {
    size_t room = bytes / PAGE_BYTES;
    vm->host.node = node_of(vm->device);
    CUmemAllocationProp properties = host_properties(vm->host.node);
    if (!room || !vm_probe_of(vm->device, &properties))
        return false;
    vm->host.returning = memory_map(room * sizeof *vm->host.returning);
    vm->host.room = vm->host.returning ? room : 0;
    return vm->host.room > 0;
}

bool vm_may_spill(struct vm *vm) {
    lock_take(&vm->lock);
    bool room = vm->host.count < vm->host.room;
    lock_give(&vm->lock);
    return room;
}

/* --- figures; the lock is held --- */

static void count_more(struct host_memory *host) {
    if (host->count++ == 0)
        host->since_ns = clock_ns();
}

static void count_less(struct host_memory *host, size_t count) {
    host->count -= count;
    if (count && host->count == 0)
        host->spent_ns += clock_ns() - host->since_ns;
}

uint64_t vm_spilled_ns(const struct vm *vm) {
    const struct host_memory *host = &vm->host;
    return host->spent_ns + (host->count ? clock_ns() - host->since_ns : 0);
}

/* --- taking and giving back --- */

uint64_t vm_spill(struct vm *vm) {
    CUmemAllocationProp properties = host_properties(vm->host.node);
    CUmemGenericAllocationHandle handle = 0;
    lock_take(&vm->lock);
    bool room = vm->host.count < vm->host.room;
    if (room)
        count_more(&vm->host);
    vm_changed(vm);
    lock_give(&vm->lock);
    vm_called(vm);
    if (room && vm_granted(REAL(cuMemCreate)(&handle, PAGE_BYTES, &properties, 0)))
        return handle | HOST_MARK;
    lock_take(&vm->lock);
    count_less(&vm->host, room);
    vm_changed(vm);
    lock_give(&vm->lock);
    return 0;
}

void vm_spill_ends(struct vm *vm, uint64_t handle) {
    vm->host.returning[vm->host.returning_count++] = handle;
}

void vm_spill_return(struct vm *vm) {
    for (;;) {
        lock_take(&vm->lock);
        struct host_memory *host = &vm->host;
        uint64_t handle = host->returning_count ? host->returning[--host->returning_count] : 0;
        host->leaving += handle != 0;
        lock_give(&vm->lock);
        if (!handle)
            return;
        vm_release(vm_real_handle(handle)); /* what is refused twice is waited for by nobody */
        vm_called(vm);
        lock_take(&vm->lock);
        count_less(host, 1);
        vm_changed(vm);
        host->leaving--;
        vm->landed++;
        lock_give(&vm->lock);
        bell_ring(&vm->arrived);
    }
}
