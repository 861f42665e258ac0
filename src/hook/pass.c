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
#define COUNT_WHERE(condition, library, result, symbol, parameters, arguments)                     \
    result symbol parameters {                                                                     \
        real_##symbol##_t real = REAL_##library(symbol);                                           \
        if (condition)                                                                             \
            call_made(ID_##symbol);                                                                \
        return real ? real arguments : MISSING_##library;                                          \
    }
#define COUNT(...) COUNT_WHERE(true, __VA_ARGS__)
#define LAUNCH(...)                                                                                \
    COUNT_WHERE(UNLIKELY(MUTANT(launch_unseen, parked_at_rest(), false)), __VA_ARGS__)
#define NEED(library, result, symbol, parameters, arguments)
#include "hooks.def"
