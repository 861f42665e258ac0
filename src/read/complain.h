/* complain.h: what is said when a call was wrong. */
#ifndef COMPLAIN_H
#define COMPLAIN_H

#include <stddef.h>

/* Writes "vramgc: SENTENCE" as one line on standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The word of `count` words that `name` was probably meant to be, or NULL. get(i) gives word i. */
const char *nearest_word(const char *name, size_t count, const char *(*get)(size_t index));

#endif
