/* soak.h: checks: the page engine under pressure. Rows of check_table.c. */
#ifndef PROVE_SOAK_H
#define PROVE_SOAK_H

#include "prove/check.h"

enum outcome check_soak(struct text *said);
enum outcome check_soak_lowvram(struct text *said);
enum outcome check_soak_captures(struct text *said);

#endif
