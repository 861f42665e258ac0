/* program.h: which program a record is of, in the words by which a person knows it: by the
 * one rule of base/program_name.h. Its whole command is in the report. */
#pragma once

#include <stdbool.h>

#include "base/program_name.h"
#include "base/text.h"
#include "vramgc_format.h"

struct program program_of(const struct vramgc_file *file);

/* "ComfyUI: main.py --listen". */
enum { PROGRAM_BYTES = 256 + sizeof((struct vramgc_file *)0)->command_line + 4 };
void program_describe(const struct vramgc_file *file, struct text *out);

/* "ComfyUI: main.py", without what it was told, which may be long. */
void program_name(const struct vramgc_file *file, struct text *out);

/* Whether it is called so: "ComfyUI: main.py", ComfyUI or main.py, in capital letters or not. */
bool program_is_called(const struct vramgc_file *file, const char *name);

/* Whether its name, folder or arguments have the word, in capital letters or not. */
bool program_has_word(const struct vramgc_file *file, const char *word);
