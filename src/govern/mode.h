/* mode.h: the mode of this process and the reason, in the file. */
#ifndef MODE_H
#define MODE_H

#include "track/device.h"

/* Recording starts, and PyTorch's version and setting stand in the file. maps: all devices say that
 * they can map memory. */
void mode_begin(int driver, bool maps);

/* Before PyTorch's allocator gets a segment: whether it may get its memory page by page. */
bool mode_is_compact(const struct device *device);

/* The self-test of a device. */
void mode_tried(const struct device *device, bool passed);

/* Writes it to the log when it is certain, or `last`. */
void mode_say(bool last);

/* For a forked child. */
void mode_unlock(void);

#endif
