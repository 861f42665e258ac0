/* host_growth.h: whether the program's memory in the host grows from job to job. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "read/stats_file.h"

bool host_memory_grows(const struct stats_file *record);

/* A sentence, and what may help: to be told apart. False: it does not. */
bool host_growth_say(struct text *text, const struct stats_file *record);
bool host_growth_say_todo(struct text *text, const struct stats_file *record);

/* Both, for where they stand together. */
bool host_growth_say_all(struct text *text, const struct stats_file *record);
