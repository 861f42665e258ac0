/* libraries.h: which libraries other than PyTorch's allocator hold memory of a device, by the file
 * that the call came from. An interposer that passes a call on is taken for its caller. Code that
 * was loaded where a library had been before has that one's name. */
#pragma once

#include "track/device.h"
#include "track/thread.h"

/* In the flags of what a library has: its index, from this bit on. */
enum { LIBRARY_SHIFT = 8 };

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
