/* table.h: what is asked of the driver, the same on a card and on the simulated device. */
#ifndef PROVE_TABLE_H
#define PROVE_TABLE_H

#include "prove/check.h"

struct check {
    const char *name;
    const char *asked; /* of the driver, and what is expected */
    enum outcome (*run)(struct text *said);
    unsigned limit_s;
    enum form from; /* the shortest form that has it */
    bool alone;     /* it leaves the context broken */
};

extern const struct check check_table[];
extern const size_t check_count;

#endif
