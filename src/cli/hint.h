/* hint.h: what a user has probably meant by a word where a program was expected. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether the word is a program that a shell would find, or a file here. */
bool hint_is_program(const char *word);

/* Whether it can be started without a shell. */
bool hint_can_run(const char *word);

/* What starting the word failed with, as a shell has it: for execvp() a program that is nowhere is
 * no permission (EACCES) where a folder of PATH cannot be read. */
int hint_error(const char *word, int error);

/* The word as it can be run: ./webui.sh, "python launch.py", or as it is. */
void hint_program(const char *word, char *out, size_t capacity);

/* "vramgc run WORDS...", the first one as it can be run: ./webui.sh, python launch.py. */
void hint_run(char *const *words, char *out, size_t capacity);

/* What to tell who has typed a word that vramgc has not; NULL: nothing. */
const char *hint_meant(const char *word);

/* What to do about a command that could not be started; "": nothing is known. */
void hint_not_started(char *const *words, char *out, size_t capacity);
