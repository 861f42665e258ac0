/* full.h: checks: released memory, and a card without any. Rows of check_table.c. */
#ifndef PROVE_FULL_H
#define PROVE_FULL_H

#include "prove/check.h"

enum outcome check_full(struct text *said);
enum outcome check_release(struct text *said);

#endif
