/* Arrays, and copies with rows and slices. An array is plain pitch-linear device memory with an
 * address that the program is not told; it is accounted and copied, but no texture reads it. */
#include "capture.h"
#include "copy.h"
#include "latency.h"

#include <stdlib.h>
#include <string.h>

struct array {
    struct block *block;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    size_t element_bytes, row_bytes, slice_bytes;
};

static size_t channel_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0; /* Block-compressed and video formats are not simulated. */
    }
}

static size_t at_least_one(size_t count) {
    return count > 0 ? count : 1;
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    struct array made = {.descriptor = *descriptor};
    made.element_bytes = channel_bytes(descriptor->Format) * descriptor->NumChannels;
    made.row_bytes = made.element_bytes * descriptor->Width;
    made.slice_bytes = made.row_bytes * at_least_one(descriptor->Height);
    if (made.row_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = capture_forbids_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    size_t bytes = made.slice_bytes * at_least_one(descriptor->Depth);
    latency_pass(COST_MALLOC, bytes);
    result = allocate_device(context_current(), bytes, &made.block);
    if (result != CUDA_SUCCESS)
        return result;
    struct array *array = malloc(sizeof *array);
    if (array == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    *array = made;
    made.block->array = handle_make(HANDLE_ARRAY, array);
    *out = (CUarray)made.block->array;
    return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    if (out == NULL || descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    END(create(out, descriptor));
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *descriptor) {
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = descriptor->Width,
                                    .Height = descriptor->Height,
                                    .Format = descriptor->Format,
                                    .NumChannels = descriptor->NumChannels};
    return cuArray3DCreate_v2(out, &wide);
}

static struct array *array_of(CUarray handle) {
    struct array *array = handle_get((uintptr_t)handle, HANDLE_ARRAY);
    if (array == NULL)
        sim_fault("array %p does not exist", (void *)handle);
    return array;
}

/* The block of an array is being released. */
void array_forget(uintptr_t handle) {
    free(handle_get(handle, HANDLE_ARRAY));
    handle_drop(handle);
}

CUresult cuArrayDestroy(CUarray handle) {
    BEGIN(NEED_CONTEXT);
    if (array_of(handle) == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    latency_pass(COST_FREE, 0);
    queue_wait_device(context_current()->device);
    struct array *array = array_of(handle);
    if (array == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    release_block(array->block);
    END(CUDA_SUCCESS);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray handle) {
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct array *array = array_of(handle);
    if (array == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    *descriptor = array->descriptor;
    END(CUDA_SUCCESS);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray handle) {
    CUDA_ARRAY3D_DESCRIPTOR wide;
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuArray3DGetDescriptor_v2(&wide, handle);
    if (result == CUDA_SUCCESS)
        *descriptor =
            (CUDA_ARRAY_DESCRIPTOR){wide.Width, wide.Height, wide.Format, wide.NumChannels};
    return result;
}

/* ---- copies ---- */

/* One end of a copy, whatever kind of memory it is in. */
struct end {
    CUmemorytype type;
    uintptr_t host, device;
    CUarray array;
    size_t x, y, z, pitch, height;
};

/* Where an end begins, its pitch and its slice. */
static CUresult resolve(struct end *end, uintptr_t *address, size_t *slice) {
    uintptr_t base = end->type == CU_MEMORYTYPE_HOST ? end->host : end->device;
    *slice = end->pitch * end->height;
    if (end->type == CU_MEMORYTYPE_ARRAY) {
        struct array *array = array_of(end->array);
        if (array == NULL)
            return CUDA_ERROR_INVALID_HANDLE;
        base = array->block->at.base;
        end->pitch = array->row_bytes;
        *slice = array->slice_bytes;
    }
    *address = base + end->z * *slice + end->y * end->pitch + end->x;
    return CUDA_SUCCESS;
}

static CUresult copy_box(struct end *to, struct end *from, struct copy_op *copy, CUstream handle,
                         bool wait) {
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    if (stream == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    CUresult result = resolve(to, &copy->to, &copy->to_slice);
    if (result == CUDA_SUCCESS)
        result = resolve(from, &copy->from, &copy->from_slice);
    if (result != CUDA_SUCCESS)
        END(result);
    copy->to_pitch = to->pitch;
    copy->from_pitch = from->pitch;
    bool rows = copy->height > 1 || copy->depth > 1;
    if (rows && (copy->to_pitch < copy->width || copy->from_pitch < copy->width))
        END(CUDA_ERROR_INVALID_VALUE);
    END(copy_submit(stream, copy, wait));
}

static CUresult copy_2d(const CUDA_MEMCPY2D *box, CUstream stream, bool wait) {
    if (box == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct end to = {box->dstMemoryType,
                     (uintptr_t)box->dstHost,
                     box->dstDevice,
                     box->dstArray,
                     box->dstXInBytes,
                     box->dstY,
                     0,
                     box->dstPitch,
                     box->Height};
    struct end from = {box->srcMemoryType,
                       (uintptr_t)box->srcHost,
                       box->srcDevice,
                       box->srcArray,
                       box->srcXInBytes,
                       box->srcY,
                       0,
                       box->srcPitch,
                       box->Height};
    struct copy_op copy = {.width = box->WidthInBytes, .height = box->Height, .depth = 1};
    return copy_box(&to, &from, &copy, stream, wait);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *box) {
    return copy_2d(box, NULL, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *box) {
    return copy_2d(box, NULL, true);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *box, CUstream stream) {
    return copy_2d(box, stream, false);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *box, CUstream stream, bool wait) {
    if (box == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct end to = {box->dstMemoryType, (uintptr_t)box->dstHost, box->dstDevice,
                     box->dstArray,      box->dstXInBytes,        box->dstY,
                     box->dstZ,          box->dstPitch,           box->dstHeight};
    struct end from = {box->srcMemoryType, (uintptr_t)box->srcHost, box->srcDevice,
                       box->srcArray,      box->srcXInBytes,        box->srcY,
                       box->srcZ,          box->srcPitch,           box->srcHeight};
    struct copy_op copy = {.width = box->WidthInBytes, .height = box->Height, .depth = box->Depth};
    return copy_box(&to, &from, &copy, stream, wait);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *box) {
    return copy_3d(box, NULL, true);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *box, CUstream stream) {
    return copy_3d(box, stream, false);
}
