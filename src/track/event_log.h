/* event_log.h: the lines in the log when memory ran out, and of what is done about idle memory,
 * which is in the statistics file, too. Both happen under the allocator's lock, where nothing may
 * be logged: they are noted there, and written by vramgc's own thread. */
#pragma once

#include "base/base.h"
#include "policy/policy.h"
#include "store/store.h"
#include "vramgc_format.h"

#include <stdbool.h>

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

/* --- reclaims --- */

/* An action that takes a while: writes it down at its beginning (action->sequence 0), and again as
 * it stands now, so that it is in the file however the process ends. Not yet in the log. From any
 * thread, but from one at a time for each device and reason. */
void reclaim_log_update(struct vramgc_action *action);

/* It is over: it may be logged. For vramgc's own threads, or when those have ended. */
void reclaim_log_end(const struct vramgc_action *action);

/* Logs all actions that are new and over: a soft out-of-memory is answered under the allocator's
 * lock, where nothing may be logged. For vramgc's own thread, or when that has ended. */
void reclaim_log_write(void);

/* The policy's word in the file. */
static inline uint32_t reclaim_log_reason(enum policy_reason reason) {
    switch (reason) {
    case POLICY_THRESHOLD:
        return VRAMGC_REASON_THRESHOLD;
    case POLICY_LOWVRAM:
        return VRAMGC_REASON_LOWVRAM;
    case POLICY_ASKED:
        return VRAMGC_REASON_REQUEST;
    case POLICY_NO_REASON:
        break;
    }
    return VRAMGC_REASON_NONE;
}
