/* program.c: see program.h. It must not look beyond the record: the program may be gone, or another
 * machine's. */
#include "read/program.h"

#include <string.h>

static const char *next_word(const char *words) {
    words += strcspn(words, " ");
    return words + strspn(words, " ");
}

/* All web UIs are "python launch.py" or alike: the interpreter and its options tell nothing, but
 * for -m and -c, which stand where a script would. */
static const char *without_interpreter(const char *command) {
    size_t length = strcspn(command, " ");
    const char *slash = memrchr(command, '/', length);
    const char *word = next_word(command);
    if (strncmp(slash ? slash + 1 : command, "python", 6) != 0)
        return command;
    while (*word == '-' && !strchr("mc", word[1]))
        word = next_word(strchr("WX", word[1]) && word[2] == ' ' ? next_word(word) : word);
    return *word ? word : command;
}

static void add_last_part(struct text *out, const char *path, size_t length) {
    while (length > 0 && path[length - 1] == '/')
        length--;
    const char *slash = memrchr(path, '/', length);
    const char *last = slash ? slash + 1 : path;
    text_add_n(out, last, length - (size_t)(last - path));
}

/* The folder of the script is the web UI's. What is installed, as bin/invokeai-web, is known by
 * where it was started, as what is there. */
struct program program_of(const struct vramgc_file *file) {
    struct program program;
    struct text folder = TEXT_IN(program.folder);
    const char *command = without_interpreter(file->command_line);
    const char *slash = memrchr(command, '/', strcspn(command, " "));
    size_t length = slash ? (size_t)(slash - command) : 0;
    if (length > 0 && strncmp(command, "./", length + 1) != 0)
        add_last_part(&folder, command, length);
    if (!*program.folder || strcmp(program.folder, "bin") == 0) {
        folder = TEXT_IN(program.folder);
        add_last_part(&folder, file->working_folder, strlen(file->working_folder));
    }
    program.command = slash ? slash + 1 : command;
    return program;
}

static void say(struct text *out, const struct program *program, size_t length) {
    text_format(out, "%s%s%.*s", program->folder, *program->folder ? ": " : "", (int)length,
                program->command);
}

void program_describe(const struct vramgc_file *file, struct text *out) {
    struct program program = program_of(file);
    say(out, &program, strlen(program.command));
}

/* "-m invokeai" is two words. */
void program_name(const struct vramgc_file *file, struct text *out) {
    struct program program = program_of(file);
    const char *word = *program.command == '-' ? next_word(program.command) : program.command;
    say(out, &program, (size_t)(word - program.command) + strcspn(word, " "));
}

bool program_has_word(const struct vramgc_file *file, const char *word) {
    return strcasestr(file->executable, word) || strcasestr(file->command_line, word) ||
           strcasestr(file->working_folder, word);
}
