/* spill_words.h: what VRAMGC_SPILL could have done about an out-of-memory. */
#pragma once

#include "judge/cause.h"
#include "base/text.h"

/* A sentence: how much of it would let a request of PyTorch's go on that a full card refused.
 * Nothing where it would not. */
void spill_say(struct text *text, const struct oom *oom);
