/* calls.c: see calls.h. */
#include "hook/calls.h"
#include "serve/async.h"
#include "serve/serve.h"
#include "track/device.h"
#include "track/thread.h"

THREAD_LOCAL struct hook_state hook_state;

/* A refusal of memory that lives with the host says nothing about the device. */
static bool is_of_host(enum alloc_class class) {
    return class == CLASS_PINNED || class == CLASS_REGISTERED || class == CLASS_MANAGED;
}

void hook_note(enum real_id id, enum alloc_class class, int result, uint64_t address,
               uint64_t bytes, bool allocator) {
    bool full = result == CALL_NO_MEMORY;
    if (result != CALL_SUCCESS && !full)
        call_failed(id);
    else if (!start_recording())
        return;
    else if (full && is_of_host(class))
        oom_at_host(id, bytes);
    else if (full && allocator && class == CLASS_POOL)
        oom_at_pool(id, bytes);
    else if (full)
        oom_at_call(id, bytes);
    else
        alloc_succeeded(class, address, bytes, allocator);
}

enum alloc_class hook_class_of_named(uint64_t address) {
    real_cuPointerGetAttribute_t get = REAL(cuPointerGetAttribute);
    unsigned managed = 0, type = CU_MEMORYTYPE_DEVICE;
    if (!get || get(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS ||
        get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS)
        return CLASS_POOL;
    return managed ? CLASS_MANAGED : type == CU_MEMORYTYPE_HOST ? CLASS_PINNED : CLASS_POOL;
}

/* A pool serves its next request from what it keeps. */
bool hook_may_take(enum alloc_class class, uint64_t bytes) {
    struct device *device = class == CLASS_POOL && recording_is_on() ? device_current() : NULL;
    uint64_t kept = device ? __atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED) : 0;
    return (class != CLASS_DEVICE && class != CLASS_POOL) || gate_allows(minus_u64(bytes, kept));
}

bool hook_last_resort(struct request *request, enum alloc_class class, uint64_t bytes,
                      bool allocator, hook_forget_t forget) {
    if ((class != CLASS_DEVICE && class != CLASS_POOL) || !forget)
        return false;
    if (!request->what)
        *request = last_resort_for(allocator ? REFUSED_SEGMENT : REFUSED_CALL, bytes);
    bool given = last_resort(request);
    if (given)
        forget();
    return given;
}

bool hook_serve(const struct async_request *call, void **out, int *answer) {
    if (hook_state.depth > 0 || !out)
        return false;
    hook_state.depth++;
    enum serve_answer paged = start_recording_in_context() ? async_alloc(call, out) : SERVE_PASS;
    hook_leave();
    if (LIKELY(paged == SERVE_PASS))
        return false;
    call_made(call->id);
    *answer = paged == SERVE_DONE ? CALL_SUCCESS : CALL_NO_MEMORY;
    return true;
}

/* Paged memory comes first: while the GPU may be asked still, and when no thread asks it any more.
 */
bool hook_capture_begin(uint64_t stream) {
    serve_capture_prepare();
    bool added = capture_begin(stream);
    serve_capture_begin();
    return added;
}

void hook_stream_gone(uint64_t stream) {
    serve_stream_gone(stream);
    stream_gone(stream);
}

cudaError_t hook_nothing_to_forget(void) {
    return cudaSuccess;
}
