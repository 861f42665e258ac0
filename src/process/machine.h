/* machine.h: what speaks for and against mapping memory on this machine: its devices, its driver,
 * and who else stands before the driver. */
#pragma once

#include "govern/mode.h"

/* After cuInit. Calls the driver. */
struct mode_machine machine_look(void);

/* What speaks against expandable segments, as a phrase, which may be in out; NULL: nothing. The
 * same. */
const char *machine_objection(char *out, size_t capacity);
