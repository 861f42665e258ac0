/* prove_first.h: `vramgc run` tests a card that has no answer yet before the program starts, so
 * that two words are enough for the best mode. It must never keep the program from starting. */
#pragma once

#include "base/options.h"

/* Nothing where mode is not auto, where each card has an answer, or VRAMGC_PROVE is off. Five
 * seconds at most, and Ctrl-C skips it. Why a card could not be tested, in a sentence's end; "":
 * each has an answer, or nobody can tell. Static storage. */
const char *prove_first(const struct options *options);

/* The words for a terminal: that vramgc is on, and what the test has found if one was made. */
const char *prove_first_found(void);
