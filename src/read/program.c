/* program.c: see program.h. It must not look beyond the record: the program may be gone, or another
 * machine's. */
#include "read/program.h"

#include "base/base.h"

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

/* What is installed, as bin/invokeai-web, has a name of its own. */
void program_describe(const struct vramgc_file *file, struct text *out) {
    const char *command = without_interpreter(file->command_line);
    size_t length = strcspn(command, " ");
    const char *slash = memrchr(command, '/', length);
    char folder[PROGRAM_BYTES];
    struct text text = TEXT_IN(folder);
    if (*command != '/')
        text_add(&text, file->working_folder);
    if (slash && strncmp(command, "./", (size_t)(slash - command) + 1) != 0)
        text_add_n(&text, command, (size_t)(slash - command));
    for (size_t end = strlen(folder); end > 0 && folder[end - 1] == '/';)
        folder[--end] = 0;
    const char *name = strrchr(folder, '/');
    name = name ? name + 1 : folder;
    if (slash && strcmp(name, "bin") == 0)
        name = "";
    text_format(out, "%s%s%s", name, *name ? ": " : "", slash ? slash + 1 : command);
}

bool program_has_word(const struct vramgc_file *file, const char *word) {
    return strcasestr(file->executable, word) || strcasestr(file->command_line, word) ||
           strcasestr(file->working_folder, word);
}
