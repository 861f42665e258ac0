/* How the stand-ins of the math libraries put their work on the simulated device: each call that
 * would launch kernels on a card launches one empty kernel in its stream, so that order, capture
 * into graphs and latency are those of real work. */
#ifndef SIM_MATH_WORK_H
#define SIM_MATH_WORK_H

#include <stdbool.h>

/* Launches an empty kernel called name in stream (NULL is the default stream). name must live as
 * long as the process. False when there is no driver or it refuses the launch. Any thread. */
bool work_launch(void *stream, const char *name);

/* Says once for each name on standard error that a function is not simulated. name must live as
 * long as the process. */
void work_unsupported(const char *name);

#endif
