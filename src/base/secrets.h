/* secrets.h: a command line as it may be kept and shown. Reports are pasted into bug trackers, so
 * what looks like a password is masked: the value of an option, a variable or a part of an URL
 * whose name says so (password, token, api-key, auth ...), with = or as the next argument, and what
 * an URL has before its @. It knows names only: a secret under another name is kept. */
#pragma once

#include "base/text.h"

/* What to know of the arguments before; zero at first. */
struct secrets {
    bool expected; /* the next argument is the value of an option that wants a secret */
};

/* Adds one argument, masked where it must be. */
void secrets_add(struct secrets *secrets, struct text *text, const char *argument);

/* A command in one text, as `sh -c` takes it. */
void secrets_add_command(struct text *text, const char *command);

/* The `length` bytes of /proc/PID/cmdline, with a space between any two arguments. */
void secrets_add_all(struct text *text, const char *arguments, size_t length);
