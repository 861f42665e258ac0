/* seed.h: where a random test begins: SEED in the environment is added to the seed of each, by this
 * in C, in c10drive (`random`), and likewise in Python. `make seeds` runs them with many. */
#ifndef SEED_H
#define SEED_H

#include <stdint.h>
#include <stdlib.h>

static inline unsigned long seed_from(unsigned long standard) {
    const char *text = getenv("SEED");
    return standard + (text ? strtoul(text, NULL, 10) : 0);
}

#endif
