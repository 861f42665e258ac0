/* unit.h: cmocka and what it wants to see included before it, and sizes. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../seed.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* It is told, so that a failure can be had again. */
static inline uint64_t unit_seed(uint64_t standard) {
    uint64_t seed = seed_from(standard);
    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

#endif
