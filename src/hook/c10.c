/* c10.c: the functions of PyTorch's libc10 that are called for every block its caching allocator
 * hands out or takes back, and before an out-of-memory error; and those of its private pools.
 * PyTorch holds the allocator's lock here and usually not the GIL: nothing may wait. The original
 * is always called, but for a block that has no pages: then an error is thrown in its place. */
#include "base/text.h"
#include "cuda/errors.h"
#include "govern/soft_oom.h"
#include "hook/calls.h"
#include "python/names.h"
#include "serve/device_vm.h"
#include "track/block.h"
#include "track/device.h"
#include "track/recorder.h"
#include "vm/vm.h"

enum { DEVICE_TYPE_CUDA = 1 };

/* c10::Device is two bytes, type and index, and comes in one register whose rest is undefined. */
static inline bool is_cuda(uint64_t device) {
    return (device & 0xff) == DEVICE_TYPE_CUDA;
}

static inline unsigned index_of_c10(uint64_t device) {
    unsigned index = (unsigned)(device >> 8 & 0xff);
    return index == 0xff ? 0 : index; /* -1: the current one; not seen from the allocator */
}

/* Mode compact: the device is full to the last page, and this block has none. The block stays
 * counted in PyTorch for ever, so this is the last resort. This file is compiled so that exceptions
 * can pass. */
static void throw_refusal(int64_t bytes) {
    TEXT_OVER(text, message, 160);
    text_add(&text, "CUDA out of memory. Tried to allocate ");
    text_add_bytes(&text, (uint64_t)bytes);
    text_add(&text, " (vramgc: no physical page is left for this block)");
    if (vm_refusal() == CUDA_ERROR_OUT_OF_MEMORY)
        errors_throw_out_of_memory(message);
    else
        errors_throw_cuda(vm_refusal());
}

/* The pages of the block first, then the books. */
static inline void block_changed(uint64_t device, const void *p, int64_t bytes) {
    struct block_event event;
    if (UNLIKELY(!recording_is_on()) || !is_cuda(device))
        return;
    if (UNLIKELY(!block_begin(index_of_c10(device), (uint64_t)(uintptr_t)p, bytes, &event)))
        return;
    bool possible = device_vm_block_changed(&event);
    if (event.allocated && LIKELY(possible)) /* else nobody ever has it */
        event.tag = names_of_block(event.bytes);
    block_end(&event);
    if (UNLIKELY(thread_block_is_pending()) && event.allocated)
        soft_oom_block_came(event.device);
    if (UNLIKELY(!possible))
        throw_refusal(bytes);
    if (event.allocated)
        thread_got_block(event.address);
}

#define REPORT_USAGE(symbol, number)                                                               \
    void symbol(void *p, int64_t bytes, number allocated, number reserved, uint64_t device) {      \
        real_##symbol##_t real = REAL(symbol);                                                     \
        block_changed(device, p, bytes);                                                           \
        if (real)                                                                                  \
            real(p, bytes, allocated, reserved, device);                                           \
    }

REPORT_USAGE(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, size_t)
REPORT_USAGE(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE, int64_t)

#define REPORT_OUT_OF_MEMORY(symbol, number)                                                       \
    void symbol(int64_t bytes, number allocated, number reserved, uint64_t device) {               \
        real_##symbol##_t real = REAL(symbol);                                                     \
        if (is_cuda(device))                                                                       \
            soft_oom_reported(index_of_c10(device), (uint64_t)bytes);                              \
        if (real)                                                                                  \
            real(bytes, allocated, reserved, device);                                              \
    }

REPORT_OUT_OF_MEMORY(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE, size_t)
REPORT_OUT_OF_MEMORY(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE, int64_t)

/* --- private pools, for `vramgc whatif`. PyTorch's binding points to these as to members, and
 * takes an odd address for that of a virtual one. Who returns nothing is called as if it did. ---
 */

#define POOL_HOOK(symbol, parameters, before, after, ...)                                          \
    __attribute__((aligned(16))) pool_id_t symbol parameters {                                     \
        real_##symbol##_t real = REAL(symbol);                                                     \
        pool_id_t id = {0, 0};                                                                     \
        before;                                                                                    \
        if (real)                                                                                  \
            id = real(__VA_ARGS__);                                                                \
        after;                                                                                     \
        return id;                                                                                 \
    }
#define ADDRESS(object) ((uint64_t)(uintptr_t)(object))
#define LEFT(owner)     recorder_note(NULL, VRAMGC_NOTE_LEFT, owner)

static uint64_t number_of(void *pool) {
    real__ZN2at4cuda7MemPool2idEv_t ask = recorder_is_on() ? REAL(_ZN2at4cuda7MemPool2idEv) : NULL;
    return recorder_pool(ask ? ask(pool) : (pool_id_t){0, 0});
}

POOL_HOOK(_ZN2at4cuda7MemPool2idEv, (void *p), (void)0, recorder_pool_asked(id), p)
POOL_HOOK(_ZN2at4cuda7MemPoolD1Ev, (void *p), LEFT(number_of(p)), (void)0, p)
POOL_HOOK(_ZN2at4cuda7MemPool17graph_pool_handleEb, (bool user), (void)0, recorder_graph(0, id),
          user)
POOL_HOOK(_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode,
          (void *graph, pool_id_t into, int mode), recorder_graph(ADDRESS(graph), into), (void)0,
          graph, into, mode)
POOL_HOOK(_ZN2at4cuda9CUDAGraph5resetEv, (void *graph), LEFT(ADDRESS(graph)), (void)0, graph)
