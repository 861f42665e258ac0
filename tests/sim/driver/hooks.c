/* The simulated kernels and questions of simgpu.h, and CUDA's own operations on single values. */
#include "capture.h"
#include "memory.h"
#include "queue.h"
#include "simgpu.h"

static CUresult submit(CUstream handle, struct op *op, uint64_t cost) {
    BEGIN(NEED_CONTEXT);
    struct stream *stream = stream_of(handle);
    if (stream == NULL) {
        sim_fault("stream %p does not exist", (void *)handle);
        END(CUDA_ERROR_INVALID_HANDLE);
    }
    bool of_value = op->kind == OP_WRITE_VALUE || op->kind == OP_WAIT_VALUE;
    op->visible = of_value && !address_is_device(op->value.address);
    END(queue_submit(stream, op, cost));
}

/* What a kernel reads or writes of memory that lies with the host comes over the link. */
static uint64_t link_ns(uintptr_t base, size_t bytes) {
    if (sim_begin(NEED_CONTEXT) != CUDA_SUCCESS)
        return 0;
    size_t linked = bytes_with_host(base, bytes);
    sim_end(__func__, CUDA_SUCCESS);
    return linked ? cost_ns(COST_COPY, linked) : 0;
}

static int submit_touch(enum op_kind kind, CUstream stream, const struct touch_op *touch) {
    struct op op = {.kind = kind, .touch = *touch};
    uint64_t cost = cost_ns(COST_LAUNCH, 0);
    if (sim.config.latency != LATENCY_NONE)
        cost += link_ns(touch->address, touch->bytes);
    return (int)submit(stream, &op, cost);
}

int simgpu_touch(CUstream stream, unsigned long long pointer, size_t bytes, unsigned char value) {
    return submit_touch(OP_TOUCH, stream, &(struct touch_op){pointer, bytes, value, true});
}

int simgpu_expect(CUstream stream, unsigned long long pointer, size_t bytes, unsigned char value) {
    return submit_touch(OP_EXPECT, stream, &(struct touch_op){pointer, bytes, value, false});
}

int simgpu_use(CUstream stream, unsigned long long pointer, size_t bytes, int write) {
    return submit_touch(OP_USE, stream, &(struct touch_op){pointer, bytes, 0, write != 0});
}

size_t simgpu_pending(void) {
    size_t count = 0;
    if (sim_begin(NEED_CONTEXT) != CUDA_SUCCESS)
        return 0;
    count = queue_pending(context_current());
    sim_end(__func__, CUDA_SUCCESS);
    return count;
}

/* ---- values in memory ---- */

static CUresult submit_value(enum op_kind kind, CUstream stream, uintptr_t address, uint64_t value,
                             unsigned bytes, unsigned flags) {
    if (address % bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct op op = {.kind = kind, .value = {address, value, bytes, flags}};
    return submit(stream, &op, 0);
}

#define VALUES(bits)                                                                               \
    CUresult cuStreamWriteValue##bits##_v2(CUstream stream, CUdeviceptr address,                   \
                                           cuuint##bits##_t value, unsigned flags) {               \
        return submit_value(OP_WRITE_VALUE, stream, address, value, bits / 8, flags);              \
    }                                                                                              \
    CUresult cuStreamWaitValue##bits##_v2(CUstream stream, CUdeviceptr address,                    \
                                          cuuint##bits##_t value, unsigned flags) {                \
        return submit_value(OP_WAIT_VALUE, stream, address, value, bits / 8, flags);               \
    }                                                                                              \
    CUresult cuStreamWriteValue##bits(CUstream stream, CUdeviceptr address,                        \
                                      cuuint##bits##_t value, unsigned flags) {                    \
        return submit_value(OP_WRITE_VALUE, stream, address, value, bits / 8, flags);              \
    }                                                                                              \
    CUresult cuStreamWaitValue##bits(CUstream stream, CUdeviceptr address, cuuint##bits##_t value, \
                                     unsigned flags) {                                             \
        return submit_value(OP_WAIT_VALUE, stream, address, value, bits / 8, flags);               \
    }

VALUES(32)
VALUES(64)

static CUresult batch_entry(CUstream stream, const CUstreamBatchMemOpParams *entry) {
    switch (entry->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return cuStreamWaitValue32_v2(stream, entry->waitValue.address, entry->waitValue.value,
                                      entry->waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return cuStreamWaitValue64_v2(stream, entry->waitValue.address, entry->waitValue.value64,
                                      entry->waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return cuStreamWriteValue32_v2(stream, entry->writeValue.address, entry->writeValue.value,
                                       entry->writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return cuStreamWriteValue64_v2(stream, entry->writeValue.address, entry->writeValue.value64,
                                       entry->writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_SUCCESS; /* Order within a stream is kept anyway. */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list,
                               unsigned flags) {
    if (list == NULL || count == 0 || count > 256 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUresult result = batch_entry(stream, &list[i]);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list,
                            unsigned flags) {
    return cuStreamBatchMemOp_v2(stream, count, list, flags);
}
