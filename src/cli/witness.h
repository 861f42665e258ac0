/* witness.h: whether a signal was sent to this process alone, or to others with it: to the whole
 * process group, a control group, all processes with a word in their command line. A second
 * process, which looks from outside like the program that is run, gets the latter, too, and says
 * so. Not for several threads. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct witness {
    pid_t process; /* 0: there is none, and nothing is known */
    int heard;     /* what it got is read here; -1: nothing */
};

/* Starts one for the signals, which must be blocked, and the command, whose words must be the last
 * of this process's own command line. It ends with this process. */
void witness_start(struct witness *witness, const sigset_t *signals, char *const *command);

/* Whether it has got the signal, too, that this process has just got. Waits for a tenth of a second
 * where it has not. */
bool witness_heard(const struct witness *witness, int number);

void witness_end(struct witness *witness);
