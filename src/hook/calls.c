/* calls.c: see calls.h. */
#include "hook/calls.h"

/* Page-locked and managed memory live with the host: a refusal of those says nothing about the
 * device. */
void hook_note(enum real_id id, enum record_class class, int result, uint64_t address,
               uint64_t bytes, bool allocator) {
    if (result == CALL_SUCCESS)
        record_allocated(class, address, bytes, allocator);
    else if (result == CALL_NO_MEMORY && class != CLASS_PINNED && class != CLASS_MANAGED)
        record_refused(id, bytes);
    else
        record_call_failed(id);
}

bool hook_rescue(enum record_class class, uint64_t bytes, hook_forget_t forget) {
    bool rescued = (class == CLASS_DEVICE || class == CLASS_POOL) && forget && record_rescue(bytes);
    if (rescued)
        forget();
    return rescued;
}

bool hook_serve(const struct record_ordered *call, void **out, int *answer) {
    if (record_thread.depth > 0 || !out)
        return false;
    record_thread.depth++;
    enum record_paged paged = record_pool_take(call, out);
    hook_leave();
    if (LIKELY(paged == RECORD_NOT_PAGED))
        return false;
    record_call(call->id);
    *answer = paged == RECORD_PAGED ? CALL_SUCCESS : CALL_NO_MEMORY;
    return true;
}

cudaError_t hook_nothing_to_forget(void) {
    return cudaSuccess;
}
