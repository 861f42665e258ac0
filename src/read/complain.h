/* complain.h: what is said when a call was wrong. */
#pragma once

/* Writes "vramgc: SENTENCE" as one line on standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends a turn of work that is done again and again: what this turn complained of is not said again
 * by the next. Where this one had nothing to complain of, and the one before had, SENTENCE is. */
void complain_anew(const char *format, ...) __attribute__((format(printf, 1, 2)));
