/* returns.h: mode compact: above the threshold (lowvram: always) idle pages go back to the driver
 * as soon as the GPU has finished with them and nobody has wanted them again for a while. vramgc's
 * own thread does it; the threads of the program only wake it. */
#ifndef RETURNS_H
#define RETURNS_H

#include "record/device.h"

/* Pages may have become idle, in a thread of the program: wakes ours if there is enough to do. At
 * most one system call, and none while our thread is awake. */
void returns_note(struct device *device);

/* For our own thread: one step on all devices, with the GPU asked and pages given back where it is
 * time. Returns how long to sleep until the next one; 0: nothing is left to do. */
uint64_t returns_step(uint64_t now_ns);

/* Whether our thread is to be woken by what happens; if not, when it will be back by itself. */
void returns_sleep(bool asleep, uint64_t until_ns);

/* Writes down what was given back and has not been told yet. */
void returns_conclude(void);

#endif
