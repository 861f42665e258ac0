/* block.h: the hot path: what is said of each block of PyTorch's caching allocator, and of the
 * calls that explain its blocks. */
#ifndef BLOCK_H
#define BLOCK_H

#include "base/base.h"

/* Blocks of PyTorch's allocator: bytes > 0 handed out, < 0 given back. False (mode compact): no
 * memory can be had for the block; it must not reach its user. */
bool block_changed(unsigned device, uint64_t address, int64_t bytes);

/* Calls of PyTorch's allocator that explain its blocks. */
void block_stream_asked(uint64_t stream, bool capturing);
void block_event_recorded(uint64_t event);
void block_event_done(uint64_t event);
void block_event_destroyed(uint64_t event); /* it is about to be destroyed */

/* Drops what is known of a device; and for a forked child. */
void block_reset(unsigned device);
void block_unlock(void);

#endif
