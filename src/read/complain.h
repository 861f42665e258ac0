/* complain.h: what is said when a call was wrong. */
#ifndef COMPLAIN_H
#define COMPLAIN_H

/* Writes "vramgc: SENTENCE" as one line on standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
