/* block.h: the hot path: what is said of each block of PyTorch's caching allocator, and of the
 * calls that explain its blocks. Pages are serve/device_vm.h's. */
#pragma once

#include "track/device.h"

/* A block of PyTorch's allocator that is handed out or given back. */
struct block_event {
    struct device *device;
    uint64_t address, bytes;
    bool allocated; /* it is handed out */
    bool pending;   /* it is given back, and other streams may still use it */
    uint32_t tag;   /* of a block that is handed out: whose it is; 0: nobody knows */
};

/* bytes > 0: handed out, < 0: given back. False: the device cannot be kept track of. Then, when the
 * block has its pages, the books: in between nobody has it. */
bool block_begin(unsigned device, uint64_t address, int64_t bytes, struct block_event *event);
void block_end(const struct block_event *event);

/* Calls of PyTorch's allocator that explain its blocks. */
void block_stream_asked(uint64_t stream, bool capturing);
void block_event_recorded(uint64_t event);
void block_event_destroyed(uint64_t event); /* it is about to be */

/* The event has passed, or will never be asked about: it may end the wait of a block. */
void block_event_ended(uint64_t event);

/* Drops what is known of a device. */
void block_reset(unsigned device);
