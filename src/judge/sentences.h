/* sentences.h: the table of sentences.def: why it was, what to do, and what else there is to know.
 * What would give idle memory back here is asked nowhere else. */
#pragma once

#include "base/text.h"
#include "judge/facts.h"

enum say { SAY_WHAT, SAY_WHY, SAY_DO, SAY_NOTE, SAY_LAST, SAY_NEXT };

struct sentence {
    enum say what;
    struct when when;
    const char *words;
};
extern const struct sentence sentences[];
extern const size_t sentence_count;

void sentences_say(struct text *text, enum say what, const struct facts *facts);
