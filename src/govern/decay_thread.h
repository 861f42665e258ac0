/* decay_thread.h: idle pages go back to the driver when they get too old, and in mode flush what
 * PyTorch has unmapped; how old they may get is said in policy/policy.h (policy_decay). vramgc's
 * own thread does it. In lowvram, where that takes too much of the time, memory may be idle for
 * longer. */
#pragma once

#include "track/device.h"

/* In a thread of the program: a block is free, and pages may be idle; PyTorch has given memory up.
 * Wakes our thread where it would come too late by itself, and gives nothing back. */
void decay_note_idle(struct device *device);
void decay_note_given_up(struct device *device);

/* In our first thread, which looks at the device: more of it may be in use by now, by whomever, so
 * that what was idle before is to go. Wakes our second thread where it would look later. */
void decay_note_used(struct device *device);

/* For our own thread: one step on all devices. Returns how long to sleep until the next one;
 * UINT64_MAX: nothing gets too old. */
uint64_t decay_step(uint64_t now_ns);

/* A request of so many bytes that the engine does not serve was refused: gives that much back now.
 * Returns the bytes given. */
uint64_t decay_after_oom(struct device *device, struct vm *vm, uint64_t bytes);

/* We have PyTorch empty its cache: what of it goes by that is a reclaim of ours. */
void decay_flush_begins(struct device *device);

/* When our thread will look by itself; UINT64_MAX: it has not decided yet. */
void decay_sleep(uint64_t until_ns);

/* Nothing more will be given back: it may be logged. */
void decay_conclude(void);
