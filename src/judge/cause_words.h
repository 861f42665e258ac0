/* cause_words.h: an out-of-memory as the tables of sentences.c ask for it: what holds, and words.
 * And the sum of the card. */
#pragma once

#include "base/text.h"
#include "judge/cause.h"

void facts_of_oom(struct facts *facts, const struct oom *oom);

/* "live 7.66 + idle 0 + driver 0.25 + free 0.09 = 8.00 GiB" */
void cause_say_sum(struct text *text, const struct oom *oom);
