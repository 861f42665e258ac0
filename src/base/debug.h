/* debug.h: CHECK(condition) says what must be true. A debug build (make debug) looks, and stops
 * there with a core file; the library that people use never does: a fault of ours ends no program.
 * CHECK_NOW_AND_THEN is for what takes long: its first looks, then each 64th of the place. */
#pragma once

#ifdef DEBUG

#include <stdatomic.h>
#include <stdbool.h>

static inline bool check_is_due(atomic_uint *looks) {
    unsigned before = atomic_fetch_add_explicit(looks, 1, memory_order_relaxed);
    return before < 256 || before % 64 == 0;
}

#define CHECK(condition) ((condition) ? (void)0 : __builtin_trap())
#define CHECK_NOW_AND_THEN(condition)                                                              \
    do {                                                                                           \
        static atomic_uint looks;                                                                  \
        if (check_is_due(&looks))                                                                  \
            CHECK(condition);                                                                      \
    } while (0)

#else

/* Names its condition without looking, so that it always compiles. */
#define CHECK(condition)              ((void)sizeof(condition))
#define CHECK_NOW_AND_THEN(condition) CHECK(condition)

#endif
