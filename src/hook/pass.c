/* pass.c: the wrappers that only count and pass on. They must change nothing. */
#include "hook/hook.h"
#include "track/while_parked.h"

#define HOOK(library, result, symbol, parameters, arguments)
#define PASS(library, result, symbol, parameters, arguments)                                       \
    result symbol parameters {                                                                     \
        real_##symbol##_t real = REAL_##library(symbol);                                           \
        if (hook_enter(ID_##symbol))                                                               \
            call_unaccounted();                                                                    \
        result r = real ? real arguments : MISSING_##library;                                      \
        hook_leave();                                                                              \
        return r;                                                                                  \
    }
#define ASK(library, result, symbol, parameters, arguments)                                        \
    result symbol parameters {                                                                     \
        real_##symbol##_t real = REAL_##library(symbol);                                           \
        if (LIKELY(!parked_at_rest()))                                                             \
            return real ? real arguments : MISSING_##library;                                      \
        parked_question_begins();                                                                  \
        result r = real ? real arguments : MISSING_##library;                                      \
        parked_question_ends();                                                                    \
        return r;                                                                                  \
    }
#define NEED(library, result, symbol, parameters, arguments)
#include "hooks.def"
