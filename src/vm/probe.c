/* probe.c: does this device really map memory the way the engine needs it? Tried once, in a private
 * range, before the first segment; it must leave nothing behind. And the
 * driver's words where it refuses a block something, thread by thread: no other error may be taken
 * for a lack of memory. */
#include "vm/vm_internal.h"

CUmemAllocationProp vm_properties(unsigned device) {
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device},
    };
    return properties;
}

CUmemAccessDesc vm_access_desc(unsigned device) {
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    return access;
}

static bool grain_is_ours(const CUmemAllocationProp *properties) {
    real_cuMemGetAllocationGranularity_t get = REAL(cuMemGetAllocationGranularity);
    size_t grain = 0;
    return get && get(&grain, properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           grain > 0 && PAGE_BYTES % grain == 0;
}

/* One refused call is not the end where it leaves something behind. */
bool vm_release(uint64_t handle) {
    return REAL(cuMemRelease)(handle) == CUDA_SUCCESS || REAL(cuMemRelease)(handle) == CUDA_SUCCESS;
}

/* Maps the handle at the address, reads one word back (after writing it, if `write`), unmaps, if
 * that is possible: *mapped. */
static bool try_handle(unsigned device, CUdeviceptr address, CUmemGenericAllocationHandle handle,
                       bool write, bool *mapped) {
    CUmemAccessDesc access = vm_access_desc(device);
    uint64_t word = 0x7672616d67632121, back = 0;
    if (REAL(cuMemMap)(address, PAGE_BYTES, 0, handle, 0) != CUDA_SUCCESS)
        return false;
    bool works = REAL(cuMemSetAccess)(address, PAGE_BYTES, &access, 1) == CUDA_SUCCESS &&
                 (!write || REAL(cuMemcpyHtoD_v2)(address, &word, sizeof word) == CUDA_SUCCESS) &&
                 REAL(cuMemcpyDtoH_v2)(&back, address, sizeof back) == CUDA_SUCCESS && back == word;
    *mapped = REAL(cuMemUnmap)(address, PAGE_BYTES) != CUDA_SUCCESS &&
              REAL(cuMemUnmap)(address, PAGE_BYTES) != CUDA_SUCCESS;
    return works && !*mapped;
}

static bool all_there(void) {
    return REAL(cuMemAddressReserve) && REAL(cuMemAddressFree) && REAL(cuMemCreate) &&
           REAL(cuMemRelease) && REAL(cuMemMap) && REAL(cuMemUnmap) && REAL(cuMemSetAccess) &&
           REAL(cuMemcpyHtoD_v2) && REAL(cuMemcpyDtoH_v2) && REAL(cuStreamSynchronize) &&
           REAL(cuStreamQuery) && REAL(cuEventCreate) && REAL(cuEventRecord) &&
           REAL(cuEventQuery) && REAL(cuCtxSynchronize) && REAL(cuMemGetInfo_v2);
}

/* Addresses where something is still mapped are not given back. */
bool vm_probe(unsigned device, const CUmemAllocationProp *properties) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    bool mapped = false;
    if (!all_there() || !grain_is_ours(properties) ||
        REAL(cuMemAddressReserve)(&range, 2 * PAGE_BYTES, 0, 0, 0) != CUDA_SUCCESS)
        return false;
    bool works = REAL(cuMemCreate)(&handle, PAGE_BYTES, properties, 0) == CUDA_SUCCESS;
    if (works) {
        works = try_handle(device, range, handle, true, &mapped) &&
                try_handle(device, range + PAGE_BYTES, handle, false, &mapped);
        vm_release(handle);
    }
    if (!mapped)
        REAL(cuMemAddressFree)(range, 2 * PAGE_BYTES);
    return works;
}

/* --- refused --- */

static THREAD_LOCAL CUresult latest = CUDA_ERROR_OUT_OF_MEMORY;

int vm_refusal(void) {
    return (int)latest;
}

void vm_refusal_forget(void) {
    latest = CUDA_ERROR_OUT_OF_MEMORY;
}

bool vm_lacks_memory(void) {
    return latest == CUDA_ERROR_OUT_OF_MEMORY;
}

bool vm_granted(CUresult result) {
    if (UNLIKELY(result != CUDA_SUCCESS) && vm_lacks_memory())
        latest = result;
    return result == CUDA_SUCCESS;
}

/* Errors after which no call in the context succeeds any more. */
void vm_note_fault(CUresult result) {
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        vm_granted(result);
        break;
    default:
        break;
    }
}
