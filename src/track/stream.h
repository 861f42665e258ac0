/* stream.h: which streams exist, for those who must wait for all of them; and which are captured:
 * then the driver must not be disturbed. */
#pragma once

#include "base/base.h"
#include "track/device.h"

/* The page engine hears of every stream of its context from now on, those that exist and the
 * default stream included. Before it serves a block. No lock is held. */
void stream_follow(unsigned device, struct vm *vm);

/* A stream was made in the current context, or in a green one that cannot be followed; and one is
 * about to be destroyed. */
void stream_made(uint64_t stream);
void stream_made_green(void);
void stream_gone(uint64_t stream);

/* Those of the device are gone. */
void stream_reset(unsigned device);

/* Captures, by stream; the per-thread stream is CU_STREAM_PER_THREAD. A capture counts as begun
 * before the real call: whether it was not known before, and is to be ended should the call fail.
 */
bool capture_begin(uint64_t stream);
void capture_end(uint64_t stream);
void capture_end_failed(uint64_t stream); /* the real call did; it may be ended or not */

/* True: some stream is captured; this one is. */
bool capture_active(void);
bool capture_includes(uint64_t stream);

/* Drops what is known of a device. */
void capture_reset(unsigned device);
