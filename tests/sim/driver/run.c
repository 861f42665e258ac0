/* What an operation does when its turn comes. A wrong access is found here, late, as on a card: it
 * is reported and ends the context with CUDA_ERROR_ILLEGAL_ADDRESS. */
#include "memory.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [OP_LAUNCH] = "kernel",
    [OP_COPY] = "copy",
    [OP_FILL] = "fill",
    [OP_MARK] = "event",
    [OP_WAIT] = "wait",
    [OP_HOST] = "host function",
    [OP_WRITE_VALUE] = "write value",
    [OP_WAIT_VALUE] = "wait value",
    [OP_TOUCH] = "touch",
    [OP_EXPECT] = "expect",
    [OP_USE] = "use",
    [OP_POOL_ALLOC] = "pool allocation",
    [OP_POOL_FREE] = "pool free",
};

static bool allowed(struct stream *stream, const struct op *op, uintptr_t base, size_t bytes,
                    bool write, const struct device *device) {
    struct context *context = stream->context;
    bool kernel = op->kind == OP_TOUCH || op->kind == OP_EXPECT || op->kind == OP_USE;
    struct access access = {context, device != NULL ? device : context->device, write, kernel};
    if (bytes == 0 || access_allowed(&access, base, bytes))
        return true;
    sim_fault("illegal address: %s of stream %llu %s %zu bytes at %#zx", names[op->kind],
              stream->id, write ? "writes" : "reads", bytes, (size_t)base);
    context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    return false;
}

/* Real kernels read a little past their operands, which does no harm where memory goes on. */
static bool overread(struct stream *stream, const struct op *op, uintptr_t base, size_t bytes,
                     const struct device *device) {
    size_t more = sim.config.overread_bytes;
    if (more == 0 || bytes == 0)
        return true;
    size_t behind = vmm_bytes_behind(base + bytes);
    return allowed(stream, op, base + bytes, behind < more ? behind : more, false, device);
}

/* Bytes from the first to the last that a pitched range touches. */
static size_t span(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
    if (width == 0 || height == 0 || depth == 0)
        return 0;
    return (depth - 1) * slice + (height - 1) * pitch + width;
}

static size_t copy_to_span(const struct copy_op *copy) {
    return span(copy->width, copy->height, copy->depth, copy->to_pitch, copy->to_slice);
}

static size_t copy_from_span(const struct copy_op *copy) {
    return span(copy->width, copy->height, copy->depth, copy->from_pitch, copy->from_slice);
}

static bool moves_data(size_t bytes) {
    return sim.config.data_limit_bytes == 0 || bytes <= sim.config.data_limit_bytes;
}

/* Whether a kernel ran since the host last sent something. */
static struct { bool kernel_ran; } run;

/* Kernels compute nothing, so what comes back from the device is whatever lay there; small results
 * are read as numbers by real programs, for which zeros are safer (setting D2H_ZERO). What the host
 * sent itself and no kernel can have changed is no result. */
static bool delivers_zeros(const struct copy_op *copy, size_t bytes) {
    bool from_device = address_is_device(copy->from), to_device = address_is_device(copy->to);
    if (to_device && !from_device)
        run.kernel_ran = false;
    return run.kernel_ran && bytes <= sim.config.d2h_zero_bytes && from_device && !to_device;
}

static void copy_rows(const struct copy_op *copy, bool zeros) {
    static const uint8_t zero = 0;
    uintptr_t source = copy->staged != NULL ? (uintptr_t)copy->staged : copy->from;
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++) {
            uintptr_t to = copy->to + z * copy->to_slice + y * copy->to_pitch;
            uintptr_t from = source + z * copy->from_slice + y * copy->from_pitch;
            if (zeros)
                bytes_fill(to, &zero, 1, copy->width);
            else
                bytes_copy(to, from, copy->width);
        }
}

static void run_copy(struct stream *stream, struct op *op) {
    const struct copy_op *copy = &op->copy;
    size_t bytes = copy->width * copy->height * copy->depth;
    if (!allowed(stream, op, copy->to, copy_to_span(copy), true, copy->to_device))
        return;
    if (copy->staged == NULL &&
        !allowed(stream, op, copy->from, copy_from_span(copy), false, copy->from_device))
        return;
    if (copy->staged == NULL &&
        !overread(stream, op, copy->from, copy_from_span(copy), copy->from_device))
        return;
    if (moves_data(bytes))
        copy_rows(copy, delivers_zeros(copy, bytes));
}

static void run_fill(struct stream *stream, struct op *op) {
    const struct fill_op *fill = &op->fill;
    if (!allowed(stream, op, fill->to, span(fill->width, fill->height, 1, fill->pitch, 0), true,
                 NULL) ||
        !overread(stream, op, fill->to, span(fill->width, fill->height, 1, fill->pitch, 0), NULL))
        return;
    if (!moves_data(fill->width * fill->height))
        return;
    for (size_t y = 0; y < fill->height; y++)
        bytes_fill(fill->to + y * fill->pitch, &fill->value, fill->value_bytes, fill->width);
}

static uint64_t read_value(uintptr_t address, unsigned bytes) {
    uint64_t value = 0;
    bytes_copy((uintptr_t)&value, address, bytes);
    return value;
}

bool op_is_ready(const struct op *op) {
    const struct value_op *wait = &op->value;
    uint64_t mask = wait->value_bytes == 4 ? UINT32_MAX : UINT64_MAX;
    uint64_t now = read_value(wait->address, wait->value_bytes);
    switch (wait->flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == (wait->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & wait->value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(now | wait->value) & mask) != 0;
    default: /* Not less, on a circle. */
        return wait->value_bytes == 4 ? (int32_t)(now - wait->value) >= 0
                                      : (int64_t)(now - wait->value) >= 0;
    }
}

static void run_write_value(struct stream *stream, struct op *op) {
    const struct value_op *write = &op->value;
    if (allowed(stream, op, write->address, write->value_bytes, true, NULL))
        bytes_copy(write->address, (uintptr_t)&write->value, write->value_bytes);
    queue_changed();
}

static void run_touch(struct stream *stream, struct op *op) {
    const struct touch_op *touch = &op->touch;
    if (!allowed(stream, op, touch->address, touch->bytes, touch->write, NULL) ||
        !overread(stream, op, touch->address, touch->bytes, NULL))
        return;
    if (op->kind == OP_TOUCH)
        bytes_fill(touch->address, &touch->value, 1, touch->bytes);
    if (op->kind != OP_EXPECT)
        return;
    size_t wrong = bytes_differ(touch->address, touch->value, touch->bytes);
    if (wrong > 0)
        sim_fault("stream %llu finds %zu of %zu bytes at %#zx not %#x as expected", stream->id,
                  wrong, touch->bytes, (size_t)touch->address, touch->value);
}

/* Runs on the driver's own thread, without the lock. */
static void run_host(struct stream *stream, struct op *op) {
    struct host_op host = op->host;
    CUresult status = stream->context->sticky;
    pthread_mutex_unlock(&sim.lock);
    sim_in_callback(true);
    if (host.callback != NULL)
        host.callback(host.handle, status, host.data);
    else if (status == CUDA_SUCCESS)
        host.function(host.data);
    sim_in_callback(false);
    pthread_mutex_lock(&sim.lock);
    queue_changed();
}

/* The program must have made all other streams finish with the memory before this point. */
static void run_pool_free(struct stream *stream, struct op *op) {
    const struct touch_op *range = &op->touch;
    if (queue_uses(range->address, range->bytes, stream, op->ticket))
        sim_fault("%zu bytes at %#zx are freed in stream %llu while work in another stream that "
                  "was not made to finish before uses them",
                  range->bytes, (size_t)range->address, stream->id);
}

static void run_memory(struct stream *stream, struct op *op) {
    switch (op->kind) {
    case OP_COPY:
        run_copy(stream, op);
        break;
    case OP_FILL:
        run_fill(stream, op);
        break;
    case OP_WRITE_VALUE:
        run_write_value(stream, op);
        break;
    case OP_TOUCH:
    case OP_EXPECT:
    case OP_USE:
        run_touch(stream, op);
        break;
    default:
        break;
    }
}

void op_run(struct stream *stream, struct op *op) {
    if (op->kind == OP_LAUNCH)
        run.kernel_ran = true;
    else if (op->kind == OP_MARK)
        op->marker->done = true;
    else if (op->kind == OP_HOST)
        run_host(stream, op);
    else if (op->kind == OP_POOL_FREE)
        run_pool_free(stream, op);
    else if (stream->context->sticky == CUDA_SUCCESS)
        run_memory(stream, op);
}

void op_release(struct op *op) {
    if (op->kind == OP_MARK || op->kind == OP_WAIT)
        marker_drop(op->marker);
    if (op->kind == OP_COPY)
        free(op->copy.staged);
}

static bool overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

bool op_touches(const struct op *op, uintptr_t base, size_t bytes) {
    const struct copy_op *copy = &op->copy;
    const struct fill_op *fill = &op->fill;
    switch (op->kind) {
    case OP_COPY:
        return overlap(copy->to, copy_to_span(copy), base, bytes) ||
               (copy->staged == NULL && overlap(copy->from, copy_from_span(copy), base, bytes));
    case OP_FILL:
        return overlap(fill->to, span(fill->width, fill->height, 1, fill->pitch, 0), base, bytes);
    case OP_WRITE_VALUE:
    case OP_WAIT_VALUE:
        return overlap(op->value.address, op->value.value_bytes, base, bytes);
    case OP_TOUCH:
    case OP_EXPECT:
    case OP_USE:
        return overlap(op->touch.address, op->touch.bytes, base, bytes);
    default:
        return false;
    }
}
