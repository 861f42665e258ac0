/* oom.h: allocations that the driver refused for lack of device memory, on the thread that was
 * refused. PyTorch's allocator asks for a segment in one call, for an expandable one page by page.
 */
#pragma once

#include "cuda/real.h"
#include "track/thread.h"

struct device;

/* The driver refused; and the caller got so much. Whether that was what it had been refused. */
void oom_at_call(enum real_id id, uint64_t bytes);
bool oom_granted(uint64_t bytes);

/* cudaMallocAsync was refused to PyTorch's allocator. No hook tells of the error that PyTorch
 * raises for it, unless it asks once more and has it then. */
void oom_at_pool(enum real_id id, uint64_t bytes);

/* This thread has read what is free on the card; or has trimmed a driver's pool. PyTorch from 2.14
 * on does that when cudaMallocAsync fails, and asks once more; it reads the card for its error. */
void oom_card_read(void);
void oom_pool_trimmed(void);

/* The driver refused PyTorch's allocator a page of an expandable segment. Which block it was for
 * shows when that block, or an out-of-memory error, comes on the same thread. */
void oom_at_page(uint64_t bytes);

/* Mode compact: a block has no pages. */
void oom_at_block(struct device *device, uint64_t bytes);

/* There was no room for the device's context: the program has no memory of it, others have. */
void oom_at_context(unsigned index);

/* Page-locked or managed memory was refused, which lies with the host. */
void oom_at_host(enum real_id id, uint64_t bytes);

/* PyTorch words an error of CUDA's, out of memory, of a call that is no request for memory: a
 * kernel's first run, a stream, a library's handle. */
void oom_at_error(enum real_id id);

/* PyTorch is about to raise an out-of-memory error, after a refusal or because of a limit of its
 * own. */
void oom_reported(struct device *device, uint64_t bytes);

/* After an error of PyTorch's the thread is given its next block, or is refused it: whether the
 * work went on (enum vramgc_reported). */
void oom_asked_anew(void);
void oom_block_freed(uint64_t address);

static inline bool oom_is_told(void) {
    return thread_state.oom.told.sequence > 0;
}

/* PyTorch asked for CUDA's latest error: in the same call from Python as the refusal it has caught
 * that, and the work goes on. To be called where the other says so: on the way of every kernel. */
void oom_worked_on(void);
extern atomic_bool oom_runtime_tells; /* such calls come by: the runtime is no part of PyTorch */
static inline bool oom_looks_for_work(void) {
    return oom_is_told() || !atomic_load_explicit(&oom_runtime_tells, memory_order_relaxed);
}

/* A block of this thread's, on either allocator. */
static inline void oom_block_changed(uint64_t address, bool allocated) {
    if (UNLIKELY(oom_is_told()))
        allocated ? oom_asked_anew() : oom_block_freed(address);
}

/* PyTorch's allocator asks for a segment, or for a page of an expandable one. Whether this thread's
 * latest refusal was of that request, and nothing has come of it yet: then PyTorch has emptied its
 * cache since. */
bool oom_segment_asked(struct device *device, uint64_t bytes);
void oom_page_asked(struct device *device);

static inline bool oom_page_asked_again(void) {
    return UNLIKELY(thread_state.oom.of_page) && oom_is_open();
}

/* The block of a refused request has come or has not. */
void oom_ends(uint64_t bytes, bool granted);
