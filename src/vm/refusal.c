/* refusal.c: the driver refuses what a block needs. One refused call is not the end: this is the
 * one rule by which the engine asks again before the block is refused. It must never take an error
 * that says something else for a lack of memory. */
#include "vm/vm_internal.h"

/* After so many refused attempts at one block it is refused. */
enum { ATTEMPTS = 3 };

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

/* Mapping takes memory, too: all that is idle goes back. A device that cannot say what it has left
 * is taken at its best. */
bool vm_ask_again(struct vm *vm, unsigned *attempts) {
    if (!vm_lacks_memory() || ++*attempts >= ATTEMPTS)
        return false;
    vm_reclaim_now(vm, UINT64_MAX);
    struct room room = vm_room(vm, 0);
    return vm_lacks_memory() && (!room.total_bytes || room.free_bytes >= PAGE_BYTES);
}
