/* alert_commands.h: the commands of VRAMGC_ON as processes: started, awaited, ended. It must not
 * wait for any of them. */
#pragma once

#include "judge/alert.h"

#include <signal.h>

/* The rules of VRAMGC_ON, of which each names a program that is there. False, with a sentence in
 * why: something is wrong. */
bool alert_commands_read(struct alert_rules *rules, const char *value, char *why, size_t capacity);

/* Says of each rule that its program is missing, and takes it out. Returns how many those were. */
size_t alert_commands_leave_out(struct alert_rules *rules, void (*say)(const char *why));

/* Alerts of these rules are told from now on; they must stay.
 * says_all: of each command that ended well it is said, too. */
void alert_commands_begin(const struct alert_rules *rules, bool says_all);

/* Keeps the alert for its rule's command: the latest counts, and how many there were. */
void alert_commands_take(const struct alert *alert);

/* Starts what waits and may start, ends what runs too long. */
void alert_commands_turn(void);

/* That program has ended: what waits of it starts without the pause. */
void alert_commands_over(uint64_t pid);

/* Nothing more will happen: what waits starts without the pause. */
void alert_commands_last(void);

bool alert_commands_run(void); /* any of them, or will */

/* Says of each that it is ended so long after the program. */
void alert_commands_say_late(uint64_t after_ns);

void alert_commands_kill(void); /* all of them */

/* So many could not be run, failed or were ended. */
size_t alert_commands_failed(void);

/* The trial of VRAMGC_ON: runs each once, with a sample, waits for it or *stopped, and says how it
 * ended. */
void alert_commands_try(const struct alert_rules *rules, const volatile sig_atomic_t *stopped);
