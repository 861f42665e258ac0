/* block.h: the hot path: what is said of each block of PyTorch's caching allocator, and of the
 * calls that explain its blocks. Pages are serve/device_vm.h's. */
#ifndef BLOCK_H
#define BLOCK_H

#include "track/device.h"

/* A block of PyTorch's allocator that is handed out or given back. */
struct block_event {
    struct device *device;
    uint64_t address, bytes;
    bool allocated; /* it is handed out */
    bool pending;   /* it is given back, and block_event_ended says when other streams are done */
    bool streams_done; /* the other streams that used it have finished with it, or that is told */
    uint64_t unseen_bytes; /* of a block at that address that was pending: its end was not seen */
};

/* bytes > 0: handed out, < 0: given back. False: the device cannot be kept track of. Then, when the
 * block has its pages, the books: in between nobody has it. */
bool block_begin(unsigned device, uint64_t address, int64_t bytes, struct block_event *event);
void block_end(struct block_event *event);

/* A block that was pending and is free now. */
struct block_range {
    uint64_t address, bytes;
};

/* Some blocks of the device that are pending, at most `room`: each once. They count as idle to the
 * caller from now on, and are not told again when they end. Returns how many. */
size_t block_take_pending(unsigned device, struct block_range *out, size_t room);

/* Calls of PyTorch's allocator that explain its blocks. */
void block_stream_asked(uint64_t stream, bool capturing);
void block_event_recorded(uint64_t event);
void block_event_destroyed(uint64_t event); /* it is about to be */

/* The event has passed, or will never be asked about. Whether that ended the wait of a block, whose
 * device is written to *device; bytes 0: its pages are idle already. */
bool block_event_ended(uint64_t event, struct device **device, struct block_range *out);

/* Drops what is known of a device; and for a forked child. */
void block_reset(unsigned device);
void block_unlock(void);

#endif
