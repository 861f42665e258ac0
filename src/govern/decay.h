/* decay.h: mode compact: above the threshold (lowvram: always) idle pages go back to the driver as
 * soon as the GPU has finished with them and nobody has wanted them again for a while. vramgc's own
 * thread does it. The threads of the program do some of it where nearly all memory is idle, or our
 * thread does not get to run. */
#ifndef DECAY_H
#define DECAY_H

#include "track/device.h"

/* Pages may have become idle, in a thread of the program: gives some back where it cannot wait, for
 * at most 0.2 ms, and wakes our thread if it would come too late for the rest by itself. Never
 * waits for the GPU. */
void decay_note(struct device *device);

/* For our own thread: one step on all devices, with the GPU asked and pages given back where it is
 * time. Returns how long to sleep until the next one; 0: nothing is left to do. */
uint64_t decay_step(uint64_t now_ns);

/* For our own thread: what has been kept for the next block, and nobody has wanted for long, goes
 * back. */
void decay_unwanted(struct device *device, struct vm *vm, uint64_t now_ns);

/* A request of so many bytes that the engine does not serve failed: gives that much back now.
 * Returns the bytes given. */
uint64_t decay_after_oom(struct device *device, struct vm *vm, uint64_t bytes);

/* For our own thread, a few times a second: idle pages in host memory go back, and what
 * decay_unwanted says. */
void decay_tick(struct device *device, uint64_t now);

/* When our thread will look by itself; UINT64_MAX: it has not decided yet. */
void decay_sleep(uint64_t until_ns);

/* Nothing more will be given back: it may be logged. */
void decay_conclude(void);

/* For a forked child. */
void decay_forget(void);

#endif
