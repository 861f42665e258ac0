/* callers.h: who takes memory past PyTorch's allocator, by the file that the call came from; and
 * call stacks of those who take memory from the driver, if VRAMGC_BACKTRACE asks for them. An
 * interposer that passes a call on is taken for its caller. Code that was loaded where a library
 * had been before has that one's name. Equal stacks are counted together; their frames are
 * addresses when they are taken, and get names later, from vramgc's own thread. */
#pragma once

#include "track/device.h"
#include "track/thread.h"

#include <stdint.h>

/* In a wrapper whose call may have got memory: who called it. Nothing is looked up here. */
static inline void library_calls(const void *return_address) {
    thread_state.caller = return_address;
}

/* The library of this thread's latest such call, as an index into the file's libraries; 0: not
 * known, or there is no room for one more. */
unsigned library_calling(void);

/* It has got so much of the device, or given it back. */
void library_count(struct device *device, unsigned library, uint64_t bytes, bool more);

/* The one that holds most of what such libraries hold now; 0: none of them does. */
unsigned library_with_most(const struct device *device);

/* --- call stacks --- */

/* Opens libunwind, apart from everything the host has loaded. depth: frames to keep, of which
 * VRAMGC_MAX_FRAMES fit; 0: nothing is done. */
void stack_open(unsigned depth);

/* Counts this thread's stack for an allocation of so many bytes. 1 + its index in the statistics
 * file, or 0: none was taken. */
uint32_t stack_note(uint64_t bytes);

/* Gives names to the frames of new stacks; for vramgc's own thread. */
void stack_name(void);
