/* reclaim_log.h: what is done about idle memory, in the statistics file and in the log. */
#pragma once

#include "policy/policy.h"
#include "store/store.h"

/* An action that takes a while: writes it down at its beginning (action->sequence 0), and again as
 * it stands now, so that it is in the file however the process ends. Not yet in the log. From any
 * thread, but from one at a time for each device and reason. */
void reclaim_log_update(struct vramgc_action *action);

/* It is over: it may be logged. For vramgc's own threads, or when those have ended. */
void reclaim_log_end(const struct vramgc_action *action);

/* Logs all actions that are new and over: out of memory is induced under the allocator's lock,
 * where nothing may be logged. For vramgc's own thread, or when that has ended. */
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
