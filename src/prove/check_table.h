/* check_table.h: what is asked of the driver, the same on a card and on the simulated device. */
#ifndef PROVE_TABLE_H
#define PROVE_TABLE_H

#include "prove/check.h"

enum row_way {
    ROW_TOGETHER, /* with its neighbours, in one process */
    ROW_ALONE,    /* in a process of its own: it leaves the context broken */
    ROW_TELLS,    /* so, too, and the proof does not depend on it: where it fails, it is left out */
    ROW_FAULTS,   /* so, too, and only where faults were asked for: it makes one on purpose */
};

struct check {
    const char *name;
    const char *asked; /* of the driver, and what is expected */
    enum outcome (*run)(struct text *said);
    unsigned limit_s;
    enum form from; /* the shortest form that has it */
    enum row_way way;
};

extern const struct check check_table[];
extern const size_t check_count;

#endif
