/* reclaim_log.h: what is done about idle memory, in the statistics file and in the log. */
#ifndef RECLAIM_LOG_H
#define RECLAIM_LOG_H

#include "store/store.h"

/* An action that takes a while: writes it down at its beginning (action->sequence 0), and again as
 * it stands now, so that it is in the file however the process ends. Not yet in the log. From any
 * thread, but from one at a time for each device and reason. */
void action_goes_on(struct vramgc_action *action);

/* It is over: it may be logged. For vramgc's own thread, or when that has ended. */
void action_is_over(const struct vramgc_action *action);

/* Logs all actions that are new and over: refusals are made under the allocator's lock, where
 * nothing may be logged. For vramgc's own thread, or when that has ended. */
void actions_log(void);

#endif
