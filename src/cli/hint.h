/* hint.h: what a user has probably meant by a word where a program was expected. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* True for a program that a shell would find, and for a file here. */
bool hint_is_program(const char *word);

/* True where it can be started without a shell. */
bool hint_can_run(const char *word);

/* The error of starting the word, as a shell has it: for execvp() a program that is nowhere is
 * no permission (EACCES) where a folder of PATH cannot be read. */
int hint_error(const char *word, int error);

/* The word as it can be run: ./webui.sh, "python launch.py", or as it is. */
void hint_program(const char *word, char *out, size_t capacity);

/* "vramgc run WORDS...", the first one as it can be run: ./webui.sh, python launch.py. */
void hint_run(char *const *words, char *out, size_t capacity);

/* A sentence for who has typed a word that vramgc has not; NULL: there is none. */
const char *hint_meant(const char *word);

/* Advice about a command that could not be started; "": there is none. */
void hint_not_started(char *const *words, char *out, size_t capacity);
