/* complain.h: what is said when a call was wrong. */
#pragma once

/* Writes "vramgc: SENTENCE" as one line on standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
