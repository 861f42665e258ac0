/* mutant.h: names places whose care a test proves: MUTANT(name, right, wrong) is `right`, and
 * nothing else, in the library that people use. In the one that tests/mutants/ runs it is `wrong`
 * if VRAMGC_MUTANT has the name, or has it among others, with commas between: then the test that is
 * named there must fail. It must never decide anything in another build. */
#pragma once

#ifdef MUTANTS

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

#else

#define MUTANT(name, right, wrong) (right)

#endif
