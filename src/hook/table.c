/* table.c: the addresses of the wrappers by id, and the wrappers that only count and pass on. */
#include "hook/hook.h"

#define HOOK(library, result, symbol, parameters, arguments)                                       \
    [ID_##symbol] = (void *)(uintptr_t)symbol,
#define PASS HOOK
#define NEED(library, result, symbol, parameters, arguments)
static void *const wrappers[REAL_COUNT] = {
#include "hooks.def"
};
#undef HOOK
#undef PASS

void *hook_wrapper(enum real_id id) {
    return id < REAL_COUNT ? wrappers[id] : NULL;
}

void *hook_for_pointer(void *pointer) {
    real_find_driver();
    enum real_id id = real_of_pointer(pointer);
    return id < REAL_COUNT ? wrappers[id] : pointer;
}

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
#include "hooks.def"
