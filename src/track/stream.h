/* stream.h: which streams exist, for those who must wait for all of them. */
#pragma once

#include "track/device.h"

/* The page engine hears of every stream of its context from now on, those that exist and the
 * default stream included. Before it serves a block. No lock is held. */
void stream_follow(unsigned device, struct vm *vm);

/* A stream was made in the current context, or in a green one that cannot be followed; and one is
 * about to be destroyed. */
void stream_made(uint64_t stream);
void stream_made_green(void);
void stream_gone(uint64_t stream);

/* Those of the device are gone. */
void stream_reset(unsigned device);
