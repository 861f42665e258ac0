/* neighbours.h: which other processes have memory of a device that was full, and which
 * other card has room. Asked for after a
 * refusal only, and by our own thread: NVML may wait, and allocates. */
#pragma once

struct device;

/* In any thread: memory of the device was refused. */
void neighbours_wanted(struct device *device);

/* In our own thread: asks, where it is wanted. */
void neighbours_look(void);
