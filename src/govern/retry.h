/* retry.h: the driver refused: what else is given back before the program is told so. */
#pragma once

#include "track/device.h"

/* Whether vramgc gave something back, so that asking again may help. */
bool retry_after_oom(uint64_t bytes);

/* The same for memory of the card, which other programs may give, too, and PyTorch's cache, which
 * is emptied for others. allocator: PyTorch's caching allocator asked. */
bool retry_on_full_card(uint64_t bytes, bool allocator);

/* What mode compact serves was refused, with all that the engine has: what the driver's pool keeps,
 * and what other programs give. */
bool retry_beyond_engine(struct device *device, uint64_t bytes);
