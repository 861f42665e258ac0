/* Contexts: the primary one of each device, others, and which is current in a thread. A context
 * that was destroyed stays known, so that a thread that still has it is told so. */
#include "capture.h"
#include "code.h"
#include "hard.h"
#include "memory.h"

#include <stdlib.h>

enum { STACK_DEPTH = 64 };

static struct { struct context *contexts; } state;

static _Thread_local struct {
    struct context *stack[STACK_DEPTH];
    int depth;
} thread;

struct context *context_current(void) {
    return thread.depth > 0 ? thread.stack[thread.depth - 1] : NULL;
}

struct context *context_of(CUcontext handle) {
    return handle_get((uintptr_t)handle, HANDLE_CONTEXT);
}

struct context *context_next(struct context *context) {
    return context == NULL ? state.contexts : context->next;
}

static void set_limits(struct context *context) {
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

static struct context *context_new(struct device *device, unsigned flags) {
    struct context *context = calloc(1, sizeof *context);
    if (context == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    context->device = device;
    context->flags = flags;
    context->id = ++sim.last_id;
    context->handle = (CUcontext)handle_make(HANDLE_CONTEXT, context);
    context->next = state.contexts;
    state.contexts = context;
    context->legacy = stream_new(context, CU_STREAM_DEFAULT, 0);
    context->legacy->legacy = true;
    set_limits(context);
    return context;
}

/* Gives a context its memory; it can be used from then on. */
static CUresult activate(struct context *context) {
    if (context->alive)
        return CUDA_SUCCESS;
    if (!device_charge_context(context->device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->alive = true;
    context->activation = ++sim.last_id;
    context->sticky = CUDA_SUCCESS;
    return CUDA_SUCCESS;
}

static void sweep_blocks(struct context *context) {
    struct block *block = block_first();
    while (block != NULL) {
        struct block *next = block_next(block);
        if (block->context == context && block->graph_memory == NULL)
            release_block(block); /* Memory of graphs goes with them. */
        block = next;
    }
}

/* Frees all that belongs to the context, after its work has ended. */
static void deactivate(struct context *context) {
    if (!context->alive)
        return;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        stream->held = false;
    queue_changed();
    queue_wait_context(context);
    if (!context->alive)
        return; /* Another thread was faster. */
    streams_drop_context(context);
    code_drop_context(context);
    sweep_blocks(context);
    pool_context_ended(context);
    context->alive = false;
    if (context->has_local_memory)
        other_give_back(context->device, sim.config.local_mem_bytes);
    context->has_local_memory = false;
    device_discharge_context(context->device);
}

/* ---- the primary context ---- */

CUresult context_primary_retain(struct device *device, struct context **out) {
    if (device->primary == NULL) {
        device->primary = context_new(device, 0);
        device->primary->primary = true;
    }
    CUresult result = activate(device->primary);
    if (result != CUDA_SUCCESS)
        return result;
    device->primary->references++;
    *out = device->primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice ordinal) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    struct context *context;
    CUresult result = context_primary_retain(device, &context);
    if (result == CUDA_SUCCESS)
        *out = context->handle;
    END(result);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    if (device->primary == NULL || device->primary->references == 0)
        END(CUDA_ERROR_INVALID_CONTEXT);
    if (--device->primary->references == 0)
        deactivate(device->primary);
    END(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
    return cuDevicePrimaryCtxRelease_v2(ordinal);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    if (device->primary != NULL) {
        deactivate(device->primary);
        device->primary->references = 0;
        pool_sweep(device);
        vmm_sweep(device);
    }
    END(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxReset(CUdevice ordinal) {
    return cuDevicePrimaryCtxReset_v2(ordinal);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    if (device->primary == NULL) {
        device->primary = context_new(device, 0);
        device->primary->primary = true;
    }
    device->primary->flags = flags;
    END(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags) {
    return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active) {
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    *flags = device->primary != NULL ? device->primary->flags : 0;
    *active = device->primary != NULL && device->primary->alive;
    END(CUDA_SUCCESS);
}

/* ---- other contexts and the stack of the thread ---- */

CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice ordinal) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct device *device = device_of(ordinal);
    if (device == NULL)
        END(CUDA_ERROR_INVALID_DEVICE);
    if (thread.depth == STACK_DEPTH)
        END(CUDA_ERROR_INVALID_VALUE);
    struct context *context = context_new(device, flags);
    CUresult result = activate(context);
    if (result != CUDA_SUCCESS)
        END(result);
    context->references = 1;
    thread.stack[thread.depth++] = context;
    *out = context->handle;
    END(CUDA_SUCCESS);
}

CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned flags,
                        CUdevice ordinal) {
    if (affinity != NULL || count != 0)
        return CUDA_ERROR_NOT_SUPPORTED; /* Execution affinity needs MPS. */
    return cuCtxCreate_v2(out, flags, ordinal);
}

CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags,
                        CUdevice ordinal) {
    if (params != NULL && (params->numExecAffinityParams != 0 || params->cigParams != NULL))
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(out, flags, ordinal);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
    BEGIN(NEED_INIT);
    struct context *context = context_of(handle);
    if (context == NULL || !context->alive) {
        sim_fault("cuCtxDestroy of context %p, which does not exist", (void *)handle);
        END(CUDA_ERROR_INVALID_CONTEXT);
    }
    if (context->primary)
        END(CUDA_ERROR_INVALID_CONTEXT);
    if (context_current() == context)
        thread.depth--;
    deactivate(context);
    handle_drop((uintptr_t)handle);
    END(CUDA_SUCCESS);
}

CUresult cuCtxCreate(CUcontext *out, unsigned flags, CUdevice ordinal) {
    return cuCtxCreate_v2(out, flags, ordinal);
}

CUresult cuCtxDestroy(CUcontext handle) {
    return cuCtxDestroy_v2(handle);
}

CUresult cuCtxSetCurrent(CUcontext handle) {
    BEGIN(NEED_INIT);
    struct context *context = context_of(handle);
    if (handle != NULL && context == NULL)
        END(CUDA_ERROR_INVALID_CONTEXT);
    if (thread.depth > 0)
        thread.depth--;
    if (context != NULL)
        thread.stack[thread.depth++] = context;
    END(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *out) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct context *context = context_current();
    *out = context != NULL ? context->handle : NULL;
    END(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
    BEGIN(NEED_INIT);
    struct context *context = context_of(handle);
    if (context == NULL)
        END(CUDA_ERROR_INVALID_CONTEXT);
    if (thread.depth == STACK_DEPTH)
        END(CUDA_ERROR_INVALID_VALUE);
    thread.stack[thread.depth++] = context;
    END(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent_v2(CUcontext *out) {
    BEGIN(NEED_INIT);
    struct context *context = context_current();
    if (context == NULL)
        END(CUDA_ERROR_INVALID_CONTEXT);
    thread.depth--;
    if (out != NULL)
        *out = context->handle;
    END(CUDA_SUCCESS);
}
