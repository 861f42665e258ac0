/* clean_text.h: makes a text from outside (a file, an argument, a variable, a path) harmless where
 * it is shown: it can neither steer a terminal nor turn the direction of writing, nor tell a
 * password. */
#pragma once

#include <stddef.h>

#include "base/text.h"

/* Ends the text within capacity (at least 1); white space becomes a space, control characters and
 * bytes that are no UTF-8 a question mark. It never grows; the rest is filled with zero bytes. */
void clean_text(char *text, size_t capacity);

/* ---- a command line as it may be kept and shown ---- */

/* Reports are pasted into bug trackers, so what looks like a password is masked: the value of an
 * option, a variable or a part of an URL whose name says so (password, token, api-key, auth ...),
 * with = or as the next argument, and what an URL has before its @. It knows names only: a secret
 * under another name is kept. Zero at first. */
struct secrets {
    bool expected; /* the next argument is the value of an option that wants a secret */
};

/* Adds one argument, masked where it must be. */
void secrets_add(struct secrets *secrets, struct text *text, const char *argument);

/* A command in one text, as `sh -c` takes it. */
void secrets_add_command(struct text *text, const char *command);

/* The `length` bytes of /proc/PID/cmdline, with a space between any two arguments. */
void secrets_add_all(struct text *text, const char *arguments, size_t length);
