/* capture.h: which streams are captured: then the driver must not be disturbed. */
#pragma once

#include "base/base.h"

/* Captures, by stream; the per-thread stream is CU_STREAM_PER_THREAD. A capture counts as begun
 * before the real call: whether it was not known before, and is to be ended should the call fail.
 */
bool capture_begin(uint64_t stream);
void capture_end(uint64_t stream);
void capture_end_failed(uint64_t stream); /* the real call did; it may be ended or not */

/* Whether any stream is captured; and whether this one is. */
bool capture_active(void);
bool capture_includes(uint64_t stream);

/* Drops what is known of a device. */
void capture_reset(unsigned device);
