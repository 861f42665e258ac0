/* refusal.c: what the driver said when it refused what a block needs, thread by thread. It must
 * never take an error that says something else for a lack of memory. */
#include "vm/vm_internal.h"

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

void vm_give_up_behind(struct vm *vm) {
    lock_take(&vm->lock);
    page_table_give_up_behind(&vm->table);
    lock_give(&vm->lock);
}
