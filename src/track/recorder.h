/* recorder.h: the order of PyTorch's blocks, in a ring beside the statistics file (VRAMGC_RECORD),
 * for `vramgc whatif`. On the way of every block event: nothing here allocates, waits or logs but
 * recorder_open. */
#pragma once

#include "cuda/real.h"
#include "track/device.h"
#include "vramgc_recording.h"

extern _Atomic(struct vramgc_recording *) recorder_file;

static inline bool recorder_is_on(void) {
    return atomic_load_explicit(&recorder_file, memory_order_relaxed) != NULL;
}

/* Beside the statistics file, which is open. After one warning nothing is recorded. */
void recorder_open(void);

/* From now on blocks may be of several streams. */
void recorder_stream_made(void);

/* PyTorch's private pools: odd of a MemPool, even of a graph; 0: none yet. */
static inline uint64_t recorder_pool(pool_id_t id) {
    return id.user ? id.user << 1 | 1 : id.graph << 1;
}

/* Python has asked one for its number; this thread is about to capture a graph (0: that of before)
 * into one; it does so now, or has. */
void recorder_pool_asked(pool_id_t id);
void recorder_graph(uint64_t graph, pool_id_t id);
void recorder_capture(bool begins);

/* In a forked child: the file belongs to the parent. */
void recorder_forget(void);

/* A block was handed out (bytes > 0) or given back, and the heap knows of it; other streams do not
 * use it any more. The device's lock is held. */
void recorder_block(struct device *device, uint64_t address, int64_t bytes, bool pending);
void recorder_completed(struct device *device, uint64_t address);

/* The lock is not held. NULL: the device that is recorded. */
void recorder_note(struct device *device, enum vramgc_note kind, uint64_t value);

/* Blocks of that device are recorded. How much of it PyTorch lets itself have. */
bool recorder_has_blocks(unsigned device);
void recorder_fraction(double fraction);
