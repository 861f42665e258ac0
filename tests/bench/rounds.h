/* rounds.h: compares two ways of doing the same thing, A and B, in many short rounds that alternate
 * (A B, B A, A B, …), so that a change of the machine's speed meets both alike. */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does one round, with the library in the way or without it, and returns the nanoseconds one
 * operation took. */
typedef double (*round_function)(bool with_library, void *context);

/* Nanoseconds per operation. without, with: lower quartiles over the rounds. added: the median of
 * the paired differences; added_low, added_high: their quartiles. */
struct comparison {
    double without_ns, with_ns;
    double added_ns, added_low_ns, added_high_ns;
    unsigned rounds;
};

/* rounds >= 1; context is handed through and may be NULL. One round of each goes before, uncounted.
 * Ends the program when memory runs out. */
struct comparison compare(round_function round, void *context, unsigned rounds);

/* One line of JSON on standard output. operations: how many one round does. */
void print_comparison(const char *name, const struct comparison *result, size_t operations);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t now_ns(void);

/* One line on standard error, and the end of the program. */
_Noreturn void give_up(const char *what);

#endif
