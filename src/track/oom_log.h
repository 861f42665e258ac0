/* oom_log.h: the line in the log when memory ran out. It happens under the allocator's lock, where
 * nothing may be logged: it is noted there, and written by vramgc's own thread. */
#ifndef OOM_LOG_H
#define OOM_LOG_H

#include <stdbool.h>

#include "vramgc_format.h"

/* An out-of-memory of which the program is told. From any thread. */
void oom_log_note(const struct vramgc_refusal *refusal);

/* Writes one line for what was noted since the last, unless that was less than a second ago, or
 * `at_end`. For vramgc's own thread, or when that has ended. */
void oom_log_write(bool at_end);

/* For a forked child. */
void oom_log_unlock(void);

#endif
