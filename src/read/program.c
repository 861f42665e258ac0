/* program.c: see program.h. It must not look beyond the record: the program may be gone, or another
 * machine's. */
#include "read/program.h"

#include <string.h>

struct program program_of(const struct vramgc_file *file) {
    return program_in(file->command_line, file->working_folder);
}

void program_describe(const struct vramgc_file *file, struct text *out) {
    struct program program = program_of(file);
    program_say(out, &program, strlen(program.command));
}

void program_name(const struct vramgc_file *file, struct text *out) {
    struct program program = program_of(file);
    program_say(out, &program, program_name_length(&program));
}

bool program_is_called(const struct vramgc_file *file, const char *name) {
    char words[PROGRAM_BYTES];
    struct text text = TEXT_IN(words);
    struct program program = program_of(file);
    program_name(file, &text);
    const char *script = words + (text.length - program_name_length(&program));
    if (strncmp(script, "-m ", 3) == 0)
        script += 3;
    return strcasecmp(name, words) == 0 || strcasecmp(name, program.folder) == 0 ||
           strcasecmp(name, script) == 0;
}

bool program_has_word(const struct vramgc_file *file, const char *word) {
    return strcasestr(file->executable, word) || strcasestr(file->command_line, word) ||
           strcasestr(file->working_folder, word);
}
