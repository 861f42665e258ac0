/* native.h: mode compact: the page engine behind the segments of PyTorch's native allocator. Without
 * that mode, or where the device failed the trial, all of these do nothing. */
#ifndef NATIVE_H
#define NATIVE_H

#include "track/device.h"
#include "track/record.h"

/* The device's engine; NULL: none. On the way of every block event. */
static inline struct pages *paged_engine(struct device *device) {
    return atomic_load_explicit(&device->pages, memory_order_acquire);
}

/* The same by index; NULL too where the device is not in use or nothing is recorded. */
static inline struct pages *paged_engine_at(unsigned index) {
    struct device *device = record_is_on() ? device_if_ready(index) : NULL;
    return device ? paged_engine(device) : NULL;
}

/* Opens it if that has not been tried yet, in a thread whose context is the device's. NULL: mode
 * compact is not wanted, or the device cannot do it. Nothing is captured: the trial writes. */
struct pages *paged_open(struct device *device);

/* A block is handed out: false, it cannot have memory. The device's lock is not held. */
bool paged_use(struct device *device, uint64_t address, uint64_t bytes);

/* A block has come to the engine: our own thread hears of memory that it is to make. */
void paged_want_spare(struct pages *pages);

/* From our own thread: has the memory made that the next block is likely to want. */
void paged_make_spare(struct device *device);

/* It was tried often enough: PyTorch gets an error, and counts the block as allocated for ever. */
void paged_refused(struct device *device, uint64_t address, uint64_t bytes);

/* A block is free; sure: all streams that used it have finished, but for its own. Calls no driver:
 * the device's lock may be held. */
void paged_leave(struct device *device, uint64_t address, uint64_t bytes, bool sure);

/* Brings the figures of physical memory up to date. */
void paged_account(struct device *device);

/* What could go back to the driver. */
uint64_t paged_idle_bytes(struct device *device);

/* Gives it back, as far as the GPU has finished with it. The device's context is current. */
uint64_t paged_give_back(struct device *device, uint64_t bytes);

/* Returns what has been kept for the next block for long. */
void paged_tick(struct device *device, uint64_t now);

/* A capture is about to begin on that device, whose context is current, and does not count as begun
 * yet. */
void paged_capture_nears(unsigned index);

/* A capture begins, and counts as begun: nothing is asked of the GPU any more. */
void paged_capture_begins(void);

/* For a forked child. */
void paged_forget(void);

/* address.c: a device has an engine now; or was reset. */
void pointer_engine_opened(unsigned device);
void pointer_reset(unsigned device);

/* The device was reset: its memory does not exist any more. */
void paged_reset(struct device *device);

#endif
