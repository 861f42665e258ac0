/* oom_log.h: the line in the log when memory ran out. It happens under the allocator's lock, where
 * nothing may be logged: it is noted there, and written by vramgc's own thread. */
#pragma once

#include <stdbool.h>

#include "base/base.h"
#include "vramgc_format.h"

/* PyTorch, which catches the error for want of a workspace, asks for the next in microseconds. An
 * error that Python raises frees the blocks of the functions that it ends, unless it is kept, as by
 * a notebook: then a person sees it first, which takes more than a tenth of a second. */
#define OOM_AT_ONCE_NS (100 * MILLISECOND_NS)

/* An out-of-memory of which the program is told. From any thread. */
void oom_log_note(const struct vramgc_refusal *refusal);

/* The latest that was noted was no error: the work went on without it, as the report says, too. */
void oom_log_went_on(const struct vramgc_refusal *refusal);

/* Writes one line for what was noted since the last, unless that was less than a second ago, or
 * `at_end`. For vramgc's own thread, or when that has ended. */
void oom_log_write(bool at_end);
