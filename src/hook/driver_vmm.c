/* driver_vmm.c: wrappers of the driver's virtual memory management, by which PyTorch's expandable
 * segments live. PyTorch gets these pointers by name from the runtime or from dlsym, once, so they
 * must be wrapped when they are handed out. In mode compact PyTorch's allocator gets virtual
 * handles (serve/expandable.h) in the place of physical memory; none of them may reach the driver,
 * whatever code brings it. */
#include "govern/decay_thread.h"
#include "govern/soft_oom.h"
#include "govern/torch.h"
#include "hook/calls.h"
#include "serve/expandable.h"
#include "serve/sharing.h"
#include "track/alloc.h"
#include "track/callers.h"
#include "track/device.h"
#include "track/oom.h"
#include "track/vmm.h"

/* A call is recorded from its success on. */
static bool has_succeeded(bool outermost, CUresult result) {
    return outermost && result == CUDA_SUCCESS && start_recording();
}

CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t align, CUdeviceptr hint,
                             unsigned long long f) {
    real_cuMemAddressReserve_t real = REAL(cuMemAddressReserve);
    bool allocator = FROM_ALLOCATOR();
    bool outermost = hook_enter_vmm(ID_cuMemAddressReserve);
    unsigned engine = VRAMGC_MAX_DEVICES;
    if (allocator && outermost && p && !align && !hint && !f && start_recording())
        engine = vhandle_address_again((uint64_t *)p, n);
    CUresult result = engine < VRAMGC_MAX_DEVICES ? CUDA_SUCCESS
                      : real                      ? real(p, n, align, hint, f)
                                                  : MISSING_CUDA;
    /* PyTorch has no other way where segments are expandable. Once. */
    if (allocator && outermost && result == CUDA_ERROR_OUT_OF_MEMORY)
        result = real(p, n, align, hint, f);
    /* Pages that compact keeps mapped keep addresses. */
    if (UNLIKELY(outermost && result == CUDA_ERROR_OUT_OF_MEMORY)) {
        struct request request = last_resort_for(REFUSED_ADDRESSES, n);
        while (result == CUDA_ERROR_OUT_OF_MEMORY && last_resort(&request))
            result = real(p, n, align, hint, f);
    }
    if (has_succeeded(outermost, result) && allocator && !vmm_range_add(*p, n, engine)) {
        struct book_range range = {*p, n, VRAMGC_MAX_DEVICES, engine};
        if (vhandle_address_free(&range, n) == VM_RANGE_NOT_OURS)
            REAL(cuMemAddressFree)(*p, n);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (has_succeeded(outermost, result)) {
        alloc_succeeded(CLASS_ADDRESS, *p, n, false);
    }
    hook_leave_vmm();
    return result;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t n) {
    real_cuMemAddressFree_t real = REAL(cuMemAddressFree);
    bool outermost = hook_enter_vmm(ID_cuMemAddressFree);
    struct alloc_freed taken = {0};
    struct book_range range = {0};
    if (outermost) {
        alloc_free_begin(p, &taken);
        range = vmm_range_free_begin(p);
    }
    enum vm_range_end freed = vhandle_address_free(&range, n);
    CUresult result = freed == VM_RANGE_IN_USE  ? CUDA_ERROR_INVALID_VALUE
                      : freed == VM_RANGE_ENDED ? CUDA_SUCCESS
                      : real                    ? real(p, n)
                                                : MISSING_CUDA;
    if (outermost && result == CUDA_SUCCESS) {
        alloc_free_commit(&taken);
        vmm_range_free_commit(&range);
    } else if (outermost) {
        alloc_free_abort(&taken);
        vmm_range_free_abort(&range);
    }
    hook_leave_vmm();
    return result;
}

/* How a cuMemCreate ended. */
static void note_created(CUresult result, const CUmemGenericAllocationHandle *h, size_t n,
                         const CUmemAllocationProp *d, bool allocator) {
    bool full = result == CUDA_ERROR_OUT_OF_MEMORY;
    bool inside = hook_state.depth > hook_state.vmm_depth; /* a call, whose end tells of it */
    if (result != CUDA_SUCCESS && (!full || inside)) {
        call_failed(ID_cuMemCreate);
    } else if (!start_recording()) {
        return;
    } else if (full) {
        allocator ? oom_at_page(n) : oom_at_call(ID_cuMemCreate, n);
    } else {
        vmm_created(*h, n, d, allocator, inside);
        if (allocator)
            soft_oom_page_created(d);
    }
}

static bool lies_on_card(const CUmemAllocationProp *d) {
    return d && d->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult create_handle(CUmemGenericAllocationHandle *h, size_t n,
                              const CUmemAllocationProp *d, unsigned long long f) {
    real_cuMemCreate_t real = REAL(cuMemCreate);
    atomic_uint *taking = gate_enter();
    bool refused = UNLIKELY(limit_is_on()) && lies_on_card(d) && !gate_allows(n);
    CUresult result = refused ? CUDA_ERROR_OUT_OF_MEMORY : real ? real(h, n, d, f) : MISSING_CUDA;
    gate_leave(taking);
    return result;
}

/* comfy-aimdo fills the card with these, and is to be refused then. On an error another's d may be
 * anything. */
static struct request refused_handle(size_t n, const CUmemAllocationProp *d, bool allocator) {
    if (allocator)
        return last_resort_for(lies_on_card(d) ? REFUSED_HANDLE : REFUSED_ADDRESSES, n);
    return last_resort_for(torch_has_aimdo() ? REFUSED_ADDRESSES : REFUSED_CALL, n);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *d,
                     unsigned long long f) {
    bool allocator = FROM_ALLOCATOR();
    bool outermost = hook_enter_vmm(ID_cuMemCreate);
    bool served = outermost && allocator && h && !f && start_recording() && vhandle_serves(n, d);
    CUresult result = served ? vhandle_create(h, n, d) : create_handle(h, n, d, f);
    if (outermost)
        library_calls(__builtin_return_address(0));
    if (UNLIKELY(outermost && !served && result == CUDA_ERROR_OUT_OF_MEMORY)) {
        struct request request = refused_handle(n, d, allocator);
        while (result == CUDA_ERROR_OUT_OF_MEMORY && last_resort(&request))
            result = create_handle(h, n, d, f);
    }
    if (outermost)
        note_created(result, h, n, d, allocator);
    hook_leave_vmm();
    return result;
}

static CUresult release_recorded(CUmemGenericAllocationHandle h) {
    real_cuMemRelease_t real = REAL(cuMemRelease);
    struct book_release release = vmm_release_begin(h);
    CUresult result = real ? real(h) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        call_reached_driver();
    else
        vmm_release_abort(&release);
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
    real_cuMemRelease_t real = REAL(cuMemRelease);
    bool outermost = hook_enter_vmm(ID_cuMemRelease);
    CUresult result = vhandle_is(h) ? vhandle_release(h)
                      : outermost   ? release_recorded(h)
                      : real        ? real(h)
                                    : MISSING_CUDA;
    hook_leave_vmm();
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *p) {
    real_cuMemRetainAllocationHandle_t real = REAL(cuMemRetainAllocationHandle);
    bool outermost = hook_enter_vmm(ID_cuMemRetainAllocationHandle);
    struct address_info place;
    CUresult result = MISSING_CUDA;
    bool ours = vhandle_retain(h, (uint64_t)(uintptr_t)p, &result);
    /* A paged segment is one allocation to the program, without a handle, as that of cudaMalloc. */
    if (!ours && address_lookup((uint64_t)(uintptr_t)p, &place))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!ours && real)
        result = real(h, p);
    if (outermost && !ours && result == CUDA_SUCCESS)
        book_retain(*h, (uint64_t)(uintptr_t)p);
    hook_leave_vmm();
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *h, void *os,
                                        CUmemAllocationHandleType t) {
    real_cuMemImportFromShareableHandle_t real = REAL(cuMemImportFromShareableHandle);
    bool outermost = hook_enter_vmm(ID_cuMemImportFromShareableHandle);
    CUresult result = real ? real(h, os, t) : MISSING_CUDA;
    if (has_succeeded(outermost, result))
        vmm_imported(*h);
    hook_leave_vmm();
    return result;
}

CUresult cuMemMap(CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle h,
                  unsigned long long f) {
    real_cuMemMap_t real = REAL(cuMemMap);
    bool outermost = hook_enter_vmm(ID_cuMemMap);
    CUresult result = vhandle_is(h) ? vhandle_map(p, n, offset, h, f)
                      : real        ? real(p, n, offset, h, f)
                                    : MISSING_CUDA;
    if (!vhandle_is(h) && has_succeeded(outermost, result))
        vmm_mapped(p, n, h);
    hook_leave_vmm();
    return result;
}

static CUresult unmap_recorded(CUdeviceptr p, size_t n) {
    real_cuMemUnmap_t real = REAL(cuMemUnmap);
    struct book_unmapping unmapping = vmm_unmap_begin(p, n);
    CUresult result = real ? real(p, n) : MISSING_CUDA;
    if (result == CUDA_SUCCESS)
        vmm_unmap_commit(&unmapping);
    else
        vmm_unmap_abort(&unmapping);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
    real_cuMemUnmap_t real = REAL(cuMemUnmap);
    bool outermost = hook_enter_vmm(ID_cuMemUnmap);
    CUresult result = MISSING_CUDA;
    if (!vhandle_unmap(p, n, &result) && (outermost || real))
        result = outermost ? unmap_recorded(p, n) : real(p, n);
    hook_leave_vmm();
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *d, size_t count) {
    real_cuMemSetAccess_t real = REAL(cuMemSetAccess);
    bool outermost = hook_enter_vmm(ID_cuMemSetAccess);
    CUresult result = MISSING_CUDA;
    bool ours = vhandle_set_access(p, n, d, count, &result);
    if (!ours && real)
        result = real(p, n, d, count);
    if (outermost && !ours && result == CUDA_SUCCESS)
        call_reached_driver();
    hook_leave_vmm();
    return result;
}

/* A virtual handle is none of the driver's, which is not asked then. */
#define UNLESS_OURS(api, symbol, ours, answer, ...)                                                \
    real_##symbol##_t real = REAL(symbol);                                                         \
    hook_enter(ID_##symbol);                                                                       \
    CUresult result = (ours) ? (answer) : real ? real(__VA_ARGS__) : MISSING_CUDA;                 \
    hook_leave();                                                                                  \
    return result

/* Of a step (mode flush) it is the driver's own that is shared. */
static bool is_virtual(CUmemGenericAllocationHandle *h) {
    uint64_t real = vhandle_is(*h) ? vhandle_real(*h) : 0;
    *h = real ? real : *h;
    return vhandle_is(*h);
}

static bool is_paged(CUdeviceptr p) {
    struct address_info place;
    return recording_is_on() && address_lookup(p, &place);
}

WRAP(UNLESS_OURS, CUDA, cuMemGetAllocationPropertiesFromHandle,
     (CUmemAllocationProp * d, CUmemGenericAllocationHandle h), vhandle_is(h),
     vhandle_properties(d, h), d, h)
WRAP(UNLESS_OURS, CUDA, cuMemExportToShareableHandle,
     (void *os, CUmemGenericAllocationHandle h, CUmemAllocationHandleType t, unsigned long long f),
     is_virtual(&h), vhandle_export(), os, h, t, f)

/* CUDA 13.1 has the second forms, which name the device. */
WRAP(UNLESS_OURS, CUDA, cuMulticastBindMem,
     (CUmemGenericAllocationHandle m, size_t at, CUmemGenericAllocationHandle h, size_t offset,
      size_t n, unsigned long long f),
     is_virtual(&h), vhandle_export(), m, at, h, offset, n, f)
WRAP(UNLESS_OURS, CUDA, cuMulticastBindMem_v2,
     (CUmemGenericAllocationHandle m, CUdevice d, size_t at, CUmemGenericAllocationHandle h,
      size_t offset, size_t n, unsigned long long f),
     is_virtual(&h), vhandle_export(), m, d, at, h, offset, n, f)
WRAP(UNLESS_OURS, CUDA, cuMulticastBindAddr,
     (CUmemGenericAllocationHandle m, size_t at, CUdeviceptr p, size_t n, unsigned long long f),
     is_paged(p), vhandle_export(), m, at, p, n, f)
WRAP(UNLESS_OURS, CUDA, cuMulticastBindAddr_v2,
     (CUmemGenericAllocationHandle m, CUdevice d, size_t at, CUdeviceptr p, size_t n,
      unsigned long long f),
     is_paged(p), vhandle_export(), m, d, at, p, n, f)

/* CUDA 13.3. */
WRAP(UNLESS_OURS, CUDA, cuLogicalEndpointBindMem,
     (CUlogicalEndpointId e, CUdevice d, cuuint64_t at, CUmemGenericAllocationHandle h,
      cuuint64_t offset, cuuint64_t n, unsigned long long f),
     is_virtual(&h), vhandle_export(), e, d, at, h, offset, n, f)
WRAP(UNLESS_OURS, CUDA, cuLogicalEndpointBindAddr,
     (CUlogicalEndpointId e, CUdevice d, cuuint64_t at, void *p, cuuint64_t n,
      unsigned long long f),
     is_paged((CUdeviceptr)p), vhandle_export(), e, d, at, p, n, f)

static bool engine_serves(void) {
    bool serves = false;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES && !serves; i++)
        serves = device_engine_at(i) != NULL;
    return serves;
}

static bool any_virtual(const CUarrayMapInfo *list, unsigned count) {
    bool any = false;
    for (unsigned i = 0; engine_serves() && list && i < count && !any; i++)
        any = vhandle_is(list[i].memHandle.memHandle);
    return any;
}

/* Tiles of an array are mapped to the handles in the list, which may be anything where the driver
 * refuses the call. */
#define MAP_TILES(api, symbol)                                                                     \
    real_##symbol##_t real = REAL(symbol);                                                         \
    hook_enter(ID_##symbol);                                                                       \
    CUresult result = MISSING_CUDA;                                                                \
    if (any_virtual(list, count))                                                                  \
        result = vhandle_export();                                                                 \
    else if (real)                                                                                 \
        result = real(list, count, s);                                                             \
    hook_leave();                                                                                  \
    return result

WRAP(MAP_TILES, CUDA, cuMemMapArrayAsync, (CUarrayMapInfo * list, unsigned count, CUstream s))
WRAP(MAP_TILES, CUDA, cuMemMapArrayAsync_ptsz, (CUarrayMapInfo * list, unsigned count, CUstream s))
