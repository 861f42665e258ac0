/* program.h: which program a record is of, in the words by which a person knows it: one rule for
 * whatever shows or asks for it. Its whole command is in the report. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>

#include "base/text.h"
#include "vramgc_format.h"

/* "ComfyUI: main.py --listen": the folder of the script, as a rule the only word that tells one web
 * UI from another, and the command from there on. */
enum {
    PROGRAM_BYTES = sizeof((struct vramgc_file *)0)->working_folder +
                    sizeof((struct vramgc_file *)0)->command_line + 8
};
void program_describe(const struct vramgc_file *file, struct text *out);

/* Whether its name, folder or arguments have the word, in capital letters or not. */
bool program_has_word(const struct vramgc_file *file, const char *word);

#endif
