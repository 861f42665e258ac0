/* idle.h: what is said of memory that PyTorch kept and no tensor used, and what to do about it. */
#pragma once

#include "base/text.h"
#include "judge/tally.h"

/* How much of what is idle is theirs is not known. */
#define IDLE_GRAPHS_KEEP                                                                           \
    " CUDA graphs were captured: what they keep counts as idle, and goes back in no mode before "  \
    "they do."

/* At the peak; or when the program rested last, where the card was short of memory. */
bool idle_is_much(const struct tally *tally);

/* As the cause of the verdict. */
void idle_say(struct text *text, const struct tally *tally);
void idle_say_todo(struct text *text, const struct tally *tally);

/* Beside another verdict. told: that is the verdict; told_of_pool: the driver's pool is. */
void idle_say_note(struct text *text, const struct tally *tally, bool told, bool told_of_pool);

/* What mode compact would have needed. */
void idle_say_unproven(struct text *text, const struct tally *tally);
