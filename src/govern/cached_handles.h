/* cached_handles.h: mode flush: physical memory that PyTorch's expandable segments release in an
 * empty_cache is cached for as long as PyTorch may want it back at once, as a program does that
 * moves one layer after the other. Making and releasing it is most of what an expandable segment
 * costs; without vramgc PyTorch would have had the cheaper cudaMalloc. Below the threshold only and
 * not under lowvram; never is more held than PyTorch had within that time. PyTorch is told that it
 * is free. Any thread may call each. */
#pragma once

#include "track/device.h"

/* In the place of cuMemRelease. False: the driver is to be asked. */
bool cached_handles_put(CUmemGenericAllocationHandle handle, CUresult *answer);

/* In the place of cuMemCreate by PyTorch's allocator, without flags. False: the driver is to be
 * asked; it has as many bytes back as are wanted, if so many were cached. */
bool cached_handles_take(uint64_t bytes, const CUmemAllocationProp *properties,
                         CUmemGenericAllocationHandle *handle);

/* Gives back the longest cached, at least so many bytes if there are. Returns the bytes. */
uint64_t cached_handles_release(const struct device *device, uint64_t bytes);

/* How long each is cached; when the first will have been for so long, UINT64_MAX: there is none;
 * and, for our own thread, gives back what has been. */
uint64_t cached_handles_age_ns(void);
uint64_t cached_handles_due_ns(const struct device *device);
void cached_handles_decay(const struct device *device, uint64_t now_ns);

uint64_t cached_handles_bytes(const struct device *device);

/* Before the driver tells the program what is free on the device. True: handles may be cached
 * there, of which none goes back by itself before the end. *before: moves_now() by then. */
bool cached_handles_reading_begins(const struct device *device, uint64_t *before);
void cached_handles_reading_ends(void);

/* In between: what is free without us, where the driver says that free_bytes are. Where memory has
 * come or gone meanwhile it is asked again, once. */
uint64_t cached_handles_free_as_told(const struct device *device, uint64_t free_bytes,
                                     uint64_t before);

/* PyTorch is about to report an out of memory, for which it reads the card. */
void cached_handles_before_refusal(const struct device *device);

/* There is no thread of ours to give anything back: all goes now, and nothing is cached any more.
 */
void cached_handles_stop(void);

/* The device was reset; and for a forked child. */
void cached_handles_reset(const struct device *device);
void cached_handles_forget(void);
