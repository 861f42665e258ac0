/* cause_words.h: an out-of-memory in words: what happened, the sum, the cause, what to do. */
#pragma once

#include "base/text.h"
#include "judge/cause.h"

/* "live 7.66 + idle 0 + driver 0.25 + free 0.09 = 8.00 GiB" */
void cause_say_sum(struct text *text, const struct oom *oom);

void cause_say(struct text *text, const struct oom *oom);

/* "WHAT: +160 MiB a job, 26 jobs; most comes from encode_prompt (pipeline.py:212)." */
void cause_say_growth(struct text *text, const char *what, const struct vramgc_file *file,
                      const struct vramgc_device *device, const struct oom_growth *growth);
/* What to do about growth. */
#define CAUSE_FIND_KEPT                                                                            \
    "Do you keep results in a list? Move them to RAM with .cpu() before. Does the loop run "       \
    "without torch.no_grad()? Each result then keeps all steps that led to it. Do you load a "     \
    "LoRA for each image? Unload it."

void cause_say_todo(struct text *text, const struct oom *oom);
