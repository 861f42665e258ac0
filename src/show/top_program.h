/* top_program.h: what `vramgc top` calls a program in its row: two that are not the same read
 * differently, however narrow the column. */
#pragma once

#include "read/running.h"

#include "base/text.h"

/* Exactly so many columns: "ComfyUI: main.py --listen". Where that of another program of the list
 * would read the same, the folder that both have goes, and then the words that both have. */
void top_program(struct text *out, const struct running *running,
                 const struct running_process *process, size_t columns);
