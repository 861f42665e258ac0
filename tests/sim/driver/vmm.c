/* Virtual memory management: reservations of addresses, handles of physical memory, mappings.
 * The content of a handle stays with it while it is unmapped and mapped elsewhere. */
#include "capture.h"
#include "hard.h"
#include "latency.h"
#include "memory.h"

#include <signal.h>
#include <stdlib.h>

struct reservation {
    struct range at; /* Must be first. */
};

enum { STALE_PLACES = 4096 };

static struct {
    struct range *reservations;
    size_t reserved_bytes;
    /* CHEAT_STALE_PAGE: what was last mapped at an address, by the address. */
    struct {
        uintptr_t base;
        CUmemGenericAllocationHandle handle;
    } stale[STALE_PLACES];
} vmm;

static struct reservation *reservation_find(uintptr_t address) {
    return (struct reservation *)ranges_find(vmm.reservations, address);
}

static bool is_multiple(size_t value) {
    return value % PAGE_BYTES == 0;
}

/* Changing what queued work sees is an error on a card only when the work meets it; it is reported
 * here as well, where the mistake is made. */
static void check_idle(const char *call, uintptr_t base, size_t bytes) {
    if (queue_uses(base, bytes, NULL, UINT64_MAX))
        sim_fault("%s of %zu bytes at %#zx while queued work uses them", call, bytes, (size_t)base);
}

static CUresult refuse(const char *call, uintptr_t base, size_t bytes, const char *why) {
    sim_fault("%s of %zu bytes at %#zx: %s", call, bytes, (size_t)base, why);
    return CUDA_ERROR_INVALID_VALUE;
}

#define FORBIDDEN_IN_CAPTURE()                                                                     \
    do {                                                                                           \
        CUresult forbidden = capture_forbids_mapping();                                            \
        if (forbidden != CUDA_SUCCESS)                                                             \
            END(forbidden);                                                                        \
    } while (0)

/* ---- reservations ---- */

/* How much of a reservation lies behind an address in it. One that is larger than the device is a
 * program's own, whose end has no memory: nothing counts as behind there. */
size_t vmm_bytes_behind(uintptr_t address) {
    struct reservation *reservation = reservation_find(address - 1);
    if (reservation == NULL || reservation->at.size_bytes > sim.config.mem_bytes)
        return 0;
    return reservation->at.base + reservation->at.size_bytes - address;
}

static bool has_addresses(size_t bytes) {
    size_t limit = sim.config.max_address_bytes;
    return limit == 0 || (bytes <= limit && vmm.reserved_bytes <= limit - bytes);
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
    bool power = (alignment & (alignment - 1)) == 0;
    if (out == NULL || bytes == 0 || !is_multiple(bytes) || !power || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_MEMORY);
    latency_pass(COST_RESERVE, bytes);
    if (!has_addresses(bytes))
        END(CUDA_ERROR_OUT_OF_MEMORY);
    uintptr_t base = hint != 0 ? space_take_at(hint, bytes) : 0;
    if (base == 0)
        base = space_take(bytes, alignment);
    struct reservation *reservation = base != 0 ? calloc(1, sizeof *reservation) : NULL;
    if (reservation == NULL)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    reservation->at.base = base;
    reservation->at.size_bytes = bytes;
    vmm.reserved_bytes += bytes;
    ranges_insert(&vmm.reservations, &reservation->at);
    *out = base;
    sim_log(1, "reserve %zu at %#zx", bytes, (size_t)base);
    END(CUDA_SUCCESS);
}

static CUresult address_free(uintptr_t base, size_t bytes) {
    struct reservation *reservation = reservation_find(base);
    if (reservation == NULL || reservation->at.base != base || reservation->at.size_bytes != bytes)
        return refuse("cuMemAddressFree", base, bytes, "no such reservation");
    if (block_overlap(base, bytes) != NULL)
        return refuse("cuMemAddressFree", base, bytes, "memory is still mapped there");
    ranges_remove(&vmm.reservations, &reservation->at);
    free(reservation);
    vmm.reserved_bytes -= bytes;
    space_give_back(base, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes) {
    BEGIN(NEED_MEMORY);
    END(address_free(base, bytes));
}

/* ---- handles ---- */

static CUresult check_prop(const CUmemAllocationProp *prop) {
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (location_is_host(&prop->location))
        return host_location_check(prop);
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_of(prop->location.id) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) && !sim.config.fabric)
        return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    if (granularity == NULL || prop == NULL || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS)
        END(result);
    *granularity = PAGE_BYTES;
    END(CUDA_SUCCESS);
}

static void count(void *object, void *number) {
    (void)object;
    ++*(long *)number;
}

static bool has_handles(void) {
    long number = 0;
    if (sim.config.max_handles == 0)
        return true;
    handle_each(HANDLE_PHYSICAL, count, &number);
    return number < sim.config.max_handles;
}

static struct phys *take(struct device *device, size_t bytes) {
    if (device_refuses(device) || !has_handles())
        return NULL;
    struct phys *phys = phys_take(device, bytes);
    if (phys == NULL && pool_give_way(device))
        phys = phys_take(device, bytes);
    return phys;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes,
                       const CUmemAllocationProp *prop) {
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS)
        return result;
    bool host = location_is_host(&prop->location);
    latency_pass(host ? COST_HOST_ALLOC : COST_CREATE, bytes);
    if (host && sim.config.cheat == CHEAT_HOST_CRASH)
        raise(SIGSEGV);
    struct phys *phys = host ? phys_take_host(bytes) : take(device_of(prop->location.id), bytes);
    if (phys == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    phys->handles = 1;
    phys->prop = *prop;
    phys->handle = handle_make(HANDLE_PHYSICAL, phys);
    *out = phys->handle;
    sim_log(1, "create %zu as %#zx, %zu free", bytes, (size_t)phys->handle,
            host ? 0 : device_free_bytes(phys->device));
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long flags) {
    if (out == NULL || prop == NULL || bytes == 0 || !is_multiple(bytes) || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_MEMORY);
    FORBIDDEN_IN_CAPTURE();
    END(create(out, bytes, prop));
}

static struct phys *phys_of(CUmemGenericAllocationHandle handle) {
    struct phys *phys = handle_get((uintptr_t)handle, HANDLE_PHYSICAL);
    return phys != NULL && phys->handles > 0 ? phys : NULL;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    BEGIN(NEED_MEMORY);
    FORBIDDEN_IN_CAPTURE();
    struct phys *phys = phys_of(handle);
    if (phys != NULL)
        latency_pass(phys->device == NULL ? COST_HOST_FREE : COST_RELEASE,
                     (size_t)phys->page_count * PAGE_BYTES);
    phys = phys_of(handle); /* The lock may have been let go. */
    if (phys == NULL) {
        sim_fault("cuMemRelease of handle %#llx, which is unknown or released", handle);
        END(CUDA_ERROR_INVALID_VALUE);
    }
    phys->handles--;
    phys_give_back(phys);
    END(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct block *block = block_find((uintptr_t)address);
    if (block == NULL || block->kind != BLOCK_MAPPING)
        END(CUDA_ERROR_INVALID_VALUE);
    block->phys->handles++;
    *out = block->phys->handle;
    END(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle) {
    if (prop == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct phys *phys = phys_of(handle);
    if (phys == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    *prop = phys->prop;
    END(CUDA_SUCCESS);
}

/* ---- mappings ---- */

static CUresult check_map(uintptr_t base, size_t bytes, const struct phys *phys) {
    struct reservation *reservation = reservation_find(base);
    if (phys == NULL)
        return refuse("cuMemMap", base, bytes, "the handle is unknown or released");
    if (bytes == 0 || !is_multiple(base) || !is_multiple(bytes))
        return refuse("cuMemMap", base, bytes, "not a multiple of the granularity");
    if (bytes != (size_t)phys->page_count * PAGE_BYTES)
        return refuse("cuMemMap", base, bytes, "not the size of the handle");
    if (reservation == NULL || base - reservation->at.base + bytes > reservation->at.size_bytes)
        return refuse("cuMemMap", base, bytes, "not within one reservation");
    if (block_overlap(base, bytes) != NULL)
        return refuse("cuMemMap", base, bytes, "something is mapped there already");
    return CUDA_SUCCESS;
}

static size_t stale_place(uintptr_t base) {
    return base / PAGE_BYTES % STALE_PLACES;
}

static void note_stale(const struct block *block) {
    vmm.stale[stale_place(block->at.base)].base = block->at.base;
    vmm.stale[stale_place(block->at.base)].handle = block->phys->handle;
}

/* What a device that cheats shows there in the place of phys. */
static struct phys *shown_at(uintptr_t base, struct phys *phys) {
    struct phys *before = vmm.stale[stale_place(base)].base == base
                              ? phys_of(vmm.stale[stale_place(base)].handle)
                              : NULL;
    bool cheat = sim.config.cheat == CHEAT_STALE_PAGE && before != NULL &&
                 before->device == phys->device && before->page_count == phys->page_count;
    return cheat ? before : phys;
}

/* Tiles of an array: their handles are looked at, and no more is simulated. */
CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned count, CUstream stream) {
    (void)stream;
    BEGIN(NEED_MEMORY);
    for (unsigned i = 0; list != NULL && i < count; i++)
        if (phys_of(list[i].memHandle.memHandle) == NULL)
            sim_fault("cuMemMapArrayAsync with handle %#llx, which is unknown or released",
                      list[i].memHandle.memHandle);
    END(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
    BEGIN(NEED_MEMORY);
    FORBIDDEN_IN_CAPTURE();
    latency_pass(COST_MAP, bytes);
    struct phys *phys = phys_of(handle);
    CUresult result = check_map(base, bytes, phys);
    if (result == CUDA_SUCCESS && (offset != 0 || flags != 0))
        result = refuse("cuMemMap", base, bytes, "offset and flags must be 0");
    if (result != CUDA_SUCCESS)
        END(result);
    struct block *block = block_new(BLOCK_MAPPING, base, bytes);
    phys = shown_at(base, phys);
    block->device = phys->device;
    block->phys = phys;
    block->phys_base = base;
    phys->mappings++;
    sim_log(1, "map %zu at %#zx", bytes, (size_t)base);
    END(CUDA_SUCCESS);
}

/* Handles mapped from there on without a gap, of those in [base, base + bytes). */
static size_t handles_at(uintptr_t base, size_t bytes) {
    size_t count = 0;
    struct block *block;
    for (uintptr_t at = base; at < base + bytes; at += block->at.size_bytes, count++) {
        block = block_find(at);
        if (block == NULL || block->at.base != at)
            break;
    }
    return count;
}

/* Is [base, base + bytes) exactly a row of whole mappings without a gap? */
static bool whole_mappings(uintptr_t base, size_t bytes) {
    uintptr_t end = base + bytes;
    while (base < end) {
        struct block *block = block_find(base);
        if (block == NULL || block->kind != BLOCK_MAPPING || block->at.base != base)
            return false;
        base += block->at.size_bytes;
    }
    return base == end;
}

static void unmap(struct block *block) {
    struct phys *phys = block->phys;
    note_stale(block);
    host_view(block, ACCESS_NONE);
    block_delete(block);
    phys->mappings--;
    phys_give_back(phys);
}

static void wait_for_kernels(uintptr_t base) {
    struct block *block = block_find(base);
    if (sim.config.unmap_waits && block != NULL && block->device != NULL)
        queue_wait_device(block->device);
}

CUresult cuMemUnmap(CUdeviceptr base, size_t bytes) {
    BEGIN(NEED_MEMORY);
    FORBIDDEN_IN_CAPTURE();
    latency_pass_handles(COST_UNMAP, handles_at(base, bytes));
    wait_for_kernels(base);
    if (bytes == 0 || !whole_mappings(base, bytes))
        END(refuse("cuMemUnmap", base, bytes, "not exactly what was mapped"));
    check_idle("cuMemUnmap", base, bytes);
    for (uintptr_t at = base; at < base + bytes;) {
        struct block *block = block_find(at);
        at += block->at.size_bytes;
        unmap(block);
    }
    sim_log(1, "unmap %zu at %#zx", bytes, (size_t)base);
    END(CUDA_SUCCESS);
}

static CUresult check_descriptor(const CUmemAccessDesc *entry) {
    bool host = location_is_host(&entry->location);
    if (!host && entry->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!host && device_of(entry->location.id) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (entry->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        entry->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        entry->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* The CPU gets no access to memory of a device; a device to another's only where the two are peers;
 * to memory that lies with the host every device. */
static CUresult check_target(const struct block *block, const CUmemAccessDesc *entry) {
    const struct phys *phys = block->phys;
    if (location_is_host(&entry->location))
        return phys->device == NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    bool reachable = phys->device == NULL || phys->device->ordinal == entry->location.id ||
                     devices_are_peers(phys->device->ordinal, entry->location.id);
    return reachable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult check_access(uintptr_t base, size_t bytes, const CUmemAccessDesc *list,
                             size_t count) {
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = check_descriptor(&list[i]);
    if (result != CUDA_SUCCESS)
        return result;
    if (bytes == 0 || !whole_mappings(base, bytes))
        return refuse("cuMemSetAccess", base, bytes, "not a range of whole mappings");
    for (uintptr_t at = base; at < base + bytes && result == CUDA_SUCCESS;) {
        struct block *block = block_find(at);
        at += block->at.size_bytes;
        for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
            result = check_target(block, &list[i]);
    }
    return result;
}

static void grant(struct block *block, const CUmemAccessDesc *entry) {
    unsigned bits = (unsigned)entry->flags;
    if (location_is_host(&entry->location)) {
        host_view(block, bits);
        return;
    }
    if (block->access[entry->location.id] & ~bits)
        check_idle("cuMemSetAccess taking access away", block->at.base, block->at.size_bytes);
    block->access[entry->location.id] = (uint8_t)bits;
}

static CUresult set_access(uintptr_t base, size_t bytes, const CUmemAccessDesc *list,
                           size_t count) {
    CUresult result = check_access(base, bytes, list, count);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < count; i++)
        if (!location_is_host(&list[i].location) && list[i].flags != 0 &&
            !tables_take(device_of(list[i].location.id), base, bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
    for (uintptr_t at = base; at < base + bytes;) {
        struct block *block = block_find(at);
        at += block->at.size_bytes;
        bool last_of_several = at == base + bytes && block->at.base != base;
        if (last_of_several && sim.config.cheat == CHEAT_LOST_ACCESS)
            break;
        for (size_t i = 0; i < count; i++)
            grant(block, &list[i]);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc *list, size_t count) {
    if (list == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_MEMORY);
    FORBIDDEN_IN_CAPTURE();
    latency_pass_handles(COST_SET_ACCESS, handles_at(base, bytes));
    END(set_access(base, bytes, list, count));
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr base) {
    if (flags == NULL || location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    bool host = location_is_host(location);
    bool known = host || (location->type == CU_MEM_LOCATION_TYPE_DEVICE && device_of(location->id));
    struct block *block = block_find(base);
    if (!known || block == NULL || block->kind != BLOCK_MAPPING)
        END(CUDA_ERROR_INVALID_VALUE);
    *flags = host ? block->host_access : block->access[location->id];
    END(CUDA_SUCCESS);
}

static void sweep_handle(void *object, void *device) {
    struct phys *phys = object;
    if (phys->device != device)
        return; /* Memory that lies with the host outlives the device's reset. */
    phys->handles = 0;
    phys_give_back(phys);
}

/* Takes away all mappings and handles of a device, when it is reset. */
void vmm_sweep(struct device *device) {
    struct block *block = block_first();
    while (block != NULL) {
        struct block *next = block_next(block);
        if (block->kind == BLOCK_MAPPING && block->device == device)
            unmap(block);
        block = next;
    }
    handle_each(HANDLE_PHYSICAL, sweep_handle, device);
    tables_drop(device);
}
