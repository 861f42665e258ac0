/* Copies and fills as the program submits them. What is plainly wrong is refused here, as a driver
 * does; whether the memory is still there is found when the operation runs (run.c). */
#include "copy.h"
#include "capture.h"

#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 64 << 10 }; /* Up to here a pageable source is copied at submission. */

static CUresult check_range(const char *what, uintptr_t base, size_t bytes) {
    if (range_is_owned(base, bytes))
        return CUDA_SUCCESS;
    sim_fault("%s of %zu bytes at %#zx, which is not (wholly) allocated", what, bytes,
              (size_t)base);
    return CUDA_ERROR_INVALID_VALUE;
}

static size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
    return (depth - 1) * slice + (height - 1) * pitch + width;
}

static bool is_pageable(uintptr_t address) {
    return !address_is_device(address) && !address_is_pinned(address);
}

/* Whatever part of it lies with the host goes over the link. */
static uint64_t copy_cost_ns(const struct copy_op *copy, size_t bytes) {
    if (!address_is_device(copy->to) || !address_is_device(copy->from))
        return cost_ns(COST_COPY, bytes);
    size_t linked = bytes_with_host(copy->to, bytes) + bytes_with_host(copy->from, bytes);
    return cost_ns(COST_COPY_DEVICE, bytes) + (linked ? cost_ns(COST_COPY, linked) : 0);
}

/* Pageable sources may be changed by the program as soon as the call returns. */
static void stage(struct copy_op *copy, size_t bytes) {
    size_t limit = sim.config.data_limit_bytes;
    if (limit != 0 && bytes > limit)
        return; /* No data will move. */
    copy->staged = malloc(bytes);
    if (copy->staged == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    memcpy(copy->staged, (const void *)copy->from, bytes);
}

/* Must the host wait? As documented: for what comes to pageable memory, and for what goes from
 * pageable memory and is too long for the staging buffer. */
static bool waits(const struct stream *stream, const struct copy_op *copy, size_t from_bytes) {
    size_t limit = sim.config.data_limit_bytes;
    if (stream->capture != NULL)
        return false;
    if (is_pageable(copy->to))
        return true;
    bool no_data = limit != 0 && copy->width * copy->height * copy->depth > limit;
    return is_pageable(copy->from) && from_bytes > STAGING_BYTES && !no_data;
}

CUresult copy_submit(struct stream *stream, const struct copy_op *wanted, bool wait) {
    struct op op = {.kind = OP_COPY, .copy = *wanted};
    struct copy_op *copy = &op.copy;
    size_t bytes = copy->width * copy->height * copy->depth;
    if (bytes == 0)
        return CUDA_SUCCESS;
    size_t from_bytes =
        extent(copy->width, copy->height, copy->depth, copy->from_pitch, copy->from_slice);
    size_t to_bytes =
        extent(copy->width, copy->height, copy->depth, copy->to_pitch, copy->to_slice);
    CUresult result = check_range("copy to", copy->to, to_bytes);
    if (result == CUDA_SUCCESS)
        result = check_range("copy from", copy->from, from_bytes);
    if (result != CUDA_SUCCESS)
        return result;
    wait = wait || waits(stream, copy, from_bytes);
    if (wait)
        result = capture_forbids_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!wait && stream->capture == NULL && is_pageable(copy->from))
        stage(copy, from_bytes);
    op.visible = !address_is_device(copy->to);
    result = queue_submit(stream, &op, copy_cost_ns(copy, bytes));
    if (result != CUDA_SUCCESS)
        free(copy->staged);
    return result == CUDA_SUCCESS && wait ? queue_wait_stream(stream) : result;
}

static struct copy_op linear(uintptr_t to, uintptr_t from, size_t bytes) {
    return (struct copy_op){.to = to, .from = from, .width = bytes, .height = 1, .depth = 1};
}

static CUresult copy_linear(uintptr_t to, uintptr_t from, size_t bytes, CUstream handle,
                            bool async) {
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    if (stream == NULL) {
        sim_fault("copy in stream %p, which does not exist", (void *)handle);
        END(CUDA_ERROR_INVALID_HANDLE);
    }
    struct copy_op copy = linear(to, from, bytes);
    bool on_device = address_is_device(to) && address_is_device(from);
    END(copy_submit(stream, &copy, !async && !on_device));
}

/* A copy without a stream is one in the default stream; the host waits unless both ends are on the
 * device, where the documentation promises no wait. */
static CUresult copy_and_wait(uintptr_t to, uintptr_t from, size_t bytes) {
    return copy_linear(to, from, bytes, NULL, false);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    FAIL_IF_TOLD();
    return copy_and_wait(to, from, bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    FAIL_IF_TOLD();
    return copy_linear(to, from, bytes, stream, true);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    FAIL_IF_TOLD();
    return copy_and_wait(to, (uintptr_t)from, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    FAIL_IF_TOLD();
    return copy_linear(to, (uintptr_t)from, bytes, stream, true);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    FAIL_IF_TOLD();
    return copy_and_wait((uintptr_t)to, from, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    FAIL_IF_TOLD();
    return copy_linear((uintptr_t)to, from, bytes, stream, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    FAIL_IF_TOLD();
    return copy_and_wait(to, from, bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    FAIL_IF_TOLD();
    return copy_linear(to, from, bytes, stream, true);
}

/* Between devices that are no peers it goes through the host. */
static CUresult copy_between(uintptr_t to, CUcontext to_context, uintptr_t from,
                             CUcontext from_context, size_t bytes, CUstream handle) {
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    struct context *to_owner = context_of(to_context), *from_owner = context_of(from_context);
    if (to_owner == NULL || !to_owner->alive || from_owner == NULL || !from_owner->alive)
        END(CUDA_ERROR_INVALID_CONTEXT);
    if (stream == NULL) {
        sim_fault("copy in stream %p, which does not exist", (void *)handle);
        END(CUDA_ERROR_INVALID_HANDLE);
    }
    struct copy_op copy = linear(to, from, bytes);
    copy.to_device = to_owner->device;
    copy.from_device = from_owner->device;
    END(copy_submit(stream, &copy, false));
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
    FAIL_IF_TOLD();
    return copy_between(to, to_context, from, from_context, bytes, NULL);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
    FAIL_IF_TOLD();
    return copy_between(to, to_context, from, from_context, bytes, stream);
}

/* ---- fills ---- */

static CUresult fill(const struct fill_op *wanted, CUstream handle, bool async) {
    struct op op = {.kind = OP_FILL, .fill = *wanted};
    size_t bytes = wanted->width * wanted->height;
    if (wanted->to % wanted->value_bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    if (stream == NULL) {
        sim_fault("fill in stream %p, which does not exist", (void *)handle);
        END(CUDA_ERROR_INVALID_HANDLE);
    }
    if (bytes == 0)
        END(CUDA_SUCCESS);
    CUresult result =
        check_range("fill", wanted->to, extent(wanted->width, wanted->height, 1, wanted->pitch, 0));
    if (result != CUDA_SUCCESS)
        END(result);
    bool on_device = address_is_device(wanted->to);
    op.visible = !on_device;
    result = queue_submit(stream, &op, cost_ns(COST_FILL, bytes));
    if (result == CUDA_SUCCESS && !async && !on_device)
        result = queue_wait_stream(stream);
    END(result);
}

static CUresult fill_line(uintptr_t to, uint32_t value, unsigned value_bytes, size_t count,
                          CUstream stream, bool async) {
    struct fill_op op = {to, value, value_bytes, count * value_bytes, 1, 0};
    return fill(&op, stream, async);
}

static CUresult fill_rows(uintptr_t to, size_t pitch, uint32_t value, unsigned value_bytes,
                          size_t count, size_t height, CUstream stream, bool async) {
    struct fill_op op = {to, value, value_bytes, count * value_bytes, height, pitch};
    return fill(&op, stream, async);
}

#define FILLS(bits, type)                                                                          \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {                      \
        FAIL_IF_TOLD();                                                                            \
        return fill_line(to, value, bits / 8, count, NULL, false);                                 \
    }                                                                                              \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {   \
        FAIL_IF_TOLD();                                                                            \
        return fill_line(to, value, bits / 8, count, stream, true);                                \
    }                                                                                              \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width,        \
                                    size_t height) {                                               \
        FAIL_IF_TOLD();                                                                            \
        return fill_rows(to, pitch, value, bits / 8, width, height, NULL, false);                  \
    }                                                                                              \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width,      \
                                      size_t height, CUstream stream) {                            \
        FAIL_IF_TOLD();                                                                            \
        return fill_rows(to, pitch, value, bits / 8, width, height, stream, true);                 \
    }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

/* ---- managed memory ---- */

static CUresult prefetch(uintptr_t pointer, size_t bytes, CUstream handle) {
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    struct block *block = block_find(pointer);
    if (stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (block == NULL || block->kind != BLOCK_MANAGED || bytes == 0)
        END(CUDA_ERROR_INVALID_VALUE);
    struct op op = {.kind = OP_USE, .touch = {.address = pointer, .bytes = bytes}};
    END(queue_submit(stream, &op, cost_ns(COST_COPY, bytes)));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                               unsigned flags, CUstream stream) {
    (void)location;
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : prefetch(pointer, bytes, stream);
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream) {
    (void)device;
    return prefetch(pointer, bytes, stream);
}
