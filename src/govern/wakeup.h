/* wakeup.h: how vramgc's own thread sleeps, and who wakes it. */
#ifndef WAKEUP_H
#define WAKEUP_H

#include "base/base.h"

/* From any thread: it looks at everything at once; it takes the next step of decay.h at once. */
void wakeup_look(void);
void wakeup_step(void);

/* For our own thread: how often it was asked to look so far. */
unsigned wakeup_looks(void);

/* How often it was woken so far, for whatever; it sleeps for so long, unless it was woken since
 * then. */
unsigned wakeup_count(void);
void wakeup_sleep(uint64_t ns, unsigned count);

#endif
