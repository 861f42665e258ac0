/* processor.h: how busy programs keep the processors of the machine, from one look to the next. */
#pragma once

#include "read/running.h"

/* Sets cpu_percent of each program that was seen before. */
void processor_note(struct running *running);
