/* context.h: the contexts in which memory was allocated, and in which vramgc's own thread works. */
#pragma once

#include "cuda/real.h"

/* The primary context of a device: which it is; our own thread stops using it, which returns
 * whether it did; it uses it again. */
void context_primary_made(unsigned device, CUcontext context);
CUcontext context_primary(unsigned device); /* NULL: not known */
bool context_primary_leave(unsigned device);
void context_primary_stays(unsigned device);

/* Another context, made with cuCtxCreate, is gone with what was allocated in it. */
void context_gone(CUcontext context);
