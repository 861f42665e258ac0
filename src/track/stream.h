/* stream.h: which streams exist, for those who must wait for all of them. */
#ifndef STREAM_H
#define STREAM_H

#include "track/device.h"

/* The device's page engine hears of every stream of the context from now on, and of the default
 * stream. The context is current; no lock is held. */
void streams_follow(struct device *device, CUcontext context);

/* A stream is about to be destroyed. */
void streams_gone(uint64_t stream);

/* Those of the device are gone; and for a forked child. */
void streams_reset(unsigned device);
void streams_unlock(void);

#endif
