/* stack.h: call stacks of those who take memory from the driver, if VRAMGC_BACKTRACE asks for them.
 * Equal stacks are counted together. Frames are addresses when they are taken; their names are
 * looked up later, by vramgc's own thread. */
#pragma once

#include <stdint.h>

/* Opens libunwind, apart from everything the host has loaded. depth: frames to keep, of which
 * VRAMGC_MAX_FRAMES fit; 0: nothing is done. */
void stack_open(unsigned depth);

/* Counts this thread's stack for an allocation of so many bytes. 1 + its index in the statistics
 * file, or 0: none was taken. */
uint32_t stack_note(uint64_t bytes);

/* Gives names to the frames of new stacks; for vramgc's own thread. */
void stack_name(void);
