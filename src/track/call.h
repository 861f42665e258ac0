/* call.h: how often hooked functions are called, and fail. */
#pragma once

#include "cuda/real.h"

void call_made(enum real_id id);
void call_failed(enum real_id id);

/* A call for memory reached the driver; one that vramgc cannot account for was passed on. */
void call_reached_driver(void);
void call_unaccounted(void);
