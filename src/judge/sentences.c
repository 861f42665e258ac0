/* sentences.c: see sentences.h. It must say nothing that is not in the table. */
#include "judge/sentences.h"
#include "judge/growers.h"
#include "base/base.h"

#include <string.h>

const struct sentence sentences[] = {
#define WHAT(of, needs, unless, words) {SAY_WHAT, {of, needs, unless}, words},
#define WHY(of, needs, unless, words)  {SAY_WHY, {of, needs, unless}, words},
#define DO(of, needs, unless, words)   {SAY_DO, {of, needs, unless}, words},
#define NOTE(of, needs, unless, words) {SAY_NOTE, {of, needs, unless}, words},
#define LAST(of, needs, unless, words) {SAY_LAST, {of, needs, unless}, words},
#define NEXT()                         {SAY_NEXT, {0, 0, 0}, ""},
#include "judge/sentences.def"
};
const size_t sentence_count = ARRAY_LENGTH(sentences);

static void fill_in(struct text *text, const char *words, const struct facts *facts) {
    words += *words == ' ' && !text->length; /* it parts sentences */
    for (; *words; words++)
        if (*words == '[' && !facts_know(facts, words + 1)) {
            words += strcspn(words, "]");
        } else if (*words == '{') {
            size_t length = strcspn(++words, "}");
            text_add(text, fact_text(facts, words, length));
            words += length;
        } else if (*words != '[' && *words != ']') {
            text_add_n(text, words, 1);
        }
}

void sentences_say(struct text *text, enum say what, const struct facts *facts) {
    bool said = false;
    for (const struct sentence *row = sentences; row < sentences + sentence_count; row++) {
        said = said && row->what != SAY_NEXT;
        if (said || row->what != what || !facts_fit(facts, &row->when, row->words))
            continue;
        fill_in(text, row->words, facts);
        said = true;
    }
}
