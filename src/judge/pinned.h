/* pinned.h: whether page-locked memory may be larger than what was asked of PyTorch. */
#ifndef PINNED_H
#define PINNED_H

#include <stddef.h>

#include "base/text.h"
#include "read/stats_file.h"

/* A sentence about the first of them where it may be, and what helps; nothing where none is. */
void pinned_say(struct text *text, struct stats_file *const *records, size_t count);

#endif
