/* program_name.h: which program a process is, in the words by which a person knows it: one rule for
 * whatever shows, writes down or asks for it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct program {
    char folder[256];    /* the last part: as a rule all that tells one web UI from another */
    const char *command; /* of the command line: from the script on, "main.py --listen" */
};
struct program program_in(const char *command_line, const char *working_folder);

/* So much of its command is its name: "main.py", "-m invokeai". */
size_t program_name_length(const struct program *program);

/* "FOLDER: " and so much of its command. */
void program_say(struct text *out, const struct program *program, size_t length);

/* "ComfyUI: main.py" where Python runs it, else what the kernel calls it; empty: there is no such
 * process. */
void program_of_process(uint64_t pid, char *name, size_t capacity);
