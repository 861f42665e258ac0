/* host_growth.h: whether the program's memory in the host grows from job to job. */
#ifndef HOST_GROWTH_H
#define HOST_GROWTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "read/stats_file.h"

bool host_memory_grows(const struct stats_file *record);

/* A sentence about the first of them that does, and what may help; nothing where none does. */
void host_growth_say(struct text *text, struct stats_file *const *records, size_t count);

#endif
