/* free_memory.h: what a card has free, as far as is known: the latest reading of the driver's, and
 * what this process took or gave since. What of it the program is told is serve/capacity.h's; mode
 * compact counts its own pages beside (vm/room.c). */
#pragma once

#include "track/device.h"

/* Asks the driver for free and total of the device, which is the current one; the figures of pages
 * are those of the same moment. False when that failed. The second: where the latest reading will
 * not do for that; False: there is none that does. */
bool device_read_memory(struct device *device);
bool device_know_memory(struct device *device, enum meminfo_need need);
bool device_memory_will_do(const struct device *device, enum meminfo_need need);

/* The program asked the driver for free and total of the current device. before: moves_now() then.
 */
void device_memory_info(const struct meminfo *told, uint64_t before);

/* Free bytes of the device: the latest reading, and what this process took or gave since. */
uint64_t device_free_bytes(const struct device *device);
uint64_t device_used_bytes(const struct device *device); /* the rest, VRAMGC_HEADROOM included */
uint64_t device_over_bytes(const struct device *device); /* more than the limits leave it */

/* Enters into the file what is in use, without that. */
void device_publish_used(struct device *device);
