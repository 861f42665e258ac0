/* check_table.h: what is asked of the driver, the same on a card and on the simulated device. */
#ifndef PROVE_TABLE_H
#define PROVE_TABLE_H

#include "prove/check.h"

enum row_way {
    ROW_TOGETHER, /* with its neighbours, in one process */
    ROW_ALONE,    /* in a process of its own: it leaves the context broken */
    ROW_FAULTS,   /* so, too, and only where faults were asked for; the proof does not depend on it:
                     where it fails, it is left out */
};

struct check {
    const char *name;
    const char *asked; /* of the driver, and what is expected */
    check_function *run;
    enum form from; /* the shortest form that has it */
    enum row_way way;
};

/* The longest soak takes 45 s, and its captures may ask for 60 more. tests/gpu counts on two
 * minutes at the most. */
enum { CHECK_LIMIT_S = 110 };

extern const struct check check_table[];
extern const size_t check_count;

#endif
