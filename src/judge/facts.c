/* facts.c: see facts.h. It knows no cause and no sentence, so that all tables are read alike. */
#include "judge/facts.h"
#include "judge/fact_rows.def"
#include "read/units.h"
#include "base/text.h"

#include <string.h>

void facts_begin(struct facts *facts, unsigned of) {
    facts->of = of;
    facts->has = 0;
    facts->word_count = 0;
}

void fact_if(struct facts *facts, bool holds, unsigned which) {
    facts->has |= holds ? which : 0;
}

void fact_word(struct facts *facts, const char *name, const char *text) {
    if (!text || !*text || facts->word_count == FACT_WORDS || fact_text(facts, name, strlen(name)))
        return;
    facts->words[facts->word_count].name = name;
    text_copy(facts->words[facts->word_count++].text, sizeof facts->words->text, text);
}

void fact_bytes(struct facts *facts, const char *name, uint64_t bytes) {
    fact_word(facts, name, show_bytes(bytes).text);
}

void fact_some(struct facts *facts, const char *name, uint64_t bytes) {
    if (bytes)
        fact_bytes(facts, name, bytes);
}

void fact_count(struct facts *facts, const char *name, uint64_t count) {
    if (count)
        fact_word(facts, name, show_count(count).text);
}

void facts_of_program(struct facts *facts, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    const char *asked = stats_file_setting(record, "mode");
    const char *lowvram = stats_file_setting(record, "lowvram");
    enum option_mode mode = stats_file_mode(file);
#include "judge/program_facts.def"
}

const char *fact_text(const struct facts *facts, const char *name, size_t length) {
    for (size_t i = 0; i < facts->word_count; i++)
        if (strncmp(facts->words[i].name, name, length) == 0 && !facts->words[i].name[length])
            return facts->words[i].text;
    return NULL;
}

bool facts_know(const struct facts *facts, const char *words) {
    bool known = true;
    for (; known && (words = strpbrk(words, "[{]")) && *words != ']'; words++)
        if (*words == '[')
            words = strchr(words, ']');
        else
            known = fact_text(facts, words + 1, strcspn(words + 1, "}"));
    return known;
}

bool facts_fit(const struct facts *facts, const struct when *when, const char *words) {
    return (when->of & facts->of) && (facts->has & when->needs) == when->needs &&
           !(facts->has & when->unless) && facts_know(facts, words);
}
