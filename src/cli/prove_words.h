/* prove_words.h: what `vramgc prove` says. */
#pragma once

#include "prove/prove_card.h"

/* For prove_run(). verbose: each row of the table, too. */
const struct prove_telling *prove_words(bool verbose);

/* What the proof in this file says and means; for proof_each(). False: it cannot be read. */
bool prove_words_show(const char *path, bool unused);
