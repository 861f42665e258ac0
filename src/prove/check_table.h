/* check_table.h: what is asked of the driver, the same on a card and on the simulated device. */
#pragma once

#include "prove/check.h"

struct check {
    const char *name;
    const char *asked; /* of the driver, and what is expected */
    check_function *run;
    enum form from; /* the shortest form that has it */
    bool alone;     /* in a process of its own, else with its neighbours in one */
};

/* The longest soak takes 45 s, and its captures may ask for 60 more. tests/gpu counts on two
 * minutes at the most. */
enum { CHECK_LIMIT_S = 110 };

extern const struct check check_table[];
extern const size_t check_count;
