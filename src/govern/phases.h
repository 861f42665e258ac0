/* phases.h: what a Python function is part of: phases.def, and lines of the user's file. */
#ifndef PHASES_H
#define PHASES_H

#include <stdbool.h>

/* PyTorch's own modules, and those that run programs: a function of theirs says nothing. */
bool phases_is_machinery(const char *module);

/* The phase of a function, "" for none. */
const char *phases_find(const char *module, const char *function);

#endif
