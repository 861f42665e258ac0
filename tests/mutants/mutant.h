/* mutant.h: in the copy of the source that tests/mutants/splice makes: MUTANT(name, right, wrong)
 * is `wrong` if VRAMGC_MUTANT has the name, or has it among others, with commas between; else
 * `right`. No other build has it. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool mutant_is(const char *name) {
    static const char *chosen;
    if (!chosen)
        chosen = getenv("VRAMGC_MUTANT");
    if (!chosen)
        chosen = "";
    size_t length = strlen(name);
    for (const char *at = strstr(chosen, name); at; at = strstr(at + 1, name))
        if ((at == chosen || at[-1] == ',') && (!at[length] || at[length] == ','))
            return true;
    return false;
}

#define MUTANT(name, right, wrong) (mutant_is(#name) ? (wrong) : (right))
