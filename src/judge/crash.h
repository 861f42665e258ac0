/* crash.h: a program that was ended and did not mean to. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "read/stats_file.h"

/* By a fault's signal, or by SIGKILL. Other signals end a program because somebody wants it so. */
bool is_crash(const struct stats_file *record);

/* A signal ended it, and nobody noted which: its starter was killed, too, or was not `vramgc run`.
 * Not of one that was told to stop, or whose Python had ended, as at Ctrl-C; nor of a process that
 * another of the records started. */
bool has_vanished(const struct stats_file *record, struct stats_file *const *records, size_t count);

/* "CRASHED at 0:03.200: SIGSEGV.", behind what is said already, or that one has vanished; NULL:
 * nothing. */
void crash_say(struct text *text, const struct stats_file *crashed);

/* What may have been why, where the signal tells, or Linux is known to have ended some; else, and
 * of NULL, nothing. */
void crash_say_cause(struct text *text, const struct stats_file *crashed);
