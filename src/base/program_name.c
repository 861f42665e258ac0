/* program_name.c: see program_name.h. The preloaded library needs it, too: no malloc, no stdio.
 * What a program was told stays its own, but for the name of its script. */
#include "base/program_name.h"

#include "base/file.h"
#include "base/process_stat.h"
#include "base/text.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const char *next_word(const char *words) {
    words += strcspn(words, " ");
    return words + strspn(words, " ");
}

static bool is_python(const char *command) {
    const char *slash = memrchr(command, '/', strcspn(command, " "));
    return strncmp(slash ? slash + 1 : command, "python", 6) == 0;
}

/* All web UIs are "python launch.py" or alike: the interpreter and its options tell nothing, but
 * for -m and -c, which stand where a script would. */
static const char *without_interpreter(const char *command) {
    const char *word = next_word(command);
    if (!is_python(command))
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
struct program program_in(const char *command_line, const char *working_folder) {
    struct program program;
    struct text folder = TEXT_IN(program.folder);
    const char *command = without_interpreter(command_line);
    const char *slash = memrchr(command, '/', strcspn(command, " "));
    size_t length = slash ? (size_t)(slash - command) : 0;
    if (length > 0 && strncmp(command, "./", length + 1) != 0)
        add_last_part(&folder, command, length);
    if (!*program.folder || strcmp(program.folder, "bin") == 0) {
        folder = TEXT_IN(program.folder);
        add_last_part(&folder, working_folder, strlen(working_folder));
    }
    program.command = slash ? slash + 1 : command;
    return program;
}

size_t program_name_length(const struct program *program) {
    const char *command = program->command, *word = *command == '-' ? next_word(command) : command;
    return (size_t)(word - command) + strcspn(word, " ");
}

void program_say(struct text *out, const struct program *program, size_t length) {
    text_add(out, program->folder);
    text_add(out, *program->folder ? ": " : "");
    text_add_n(out, program->command, length);
}

static void read_folder(uint64_t pid, char *out, size_t capacity) {
    char path[48];
    struct text text = TEXT_IN(path);
    text_format(&text, "/proc/%llu/cwd", (unsigned long long)pid);
    ssize_t length = readlink(path, out, capacity - 1);
    out[length > 0 ? length : 0] = 0;
}

void program_of_process(uint64_t pid, char *name, size_t capacity) {
    char path[48], words[1024], folder[512];
    struct text text = TEXT_IN(path), out = text_in(name, capacity);
    text_format(&text, "/proc/%llu/cmdline", (unsigned long long)pid);
    size_t length = file_read_start(path, words, sizeof words);
    for (size_t i = 0; i + 1 < length; i++)
        words[i] = words[i] ? words[i] : ' ';
    if (length == 0 || !is_python(words)) {
        text_add(&out, process_stat(pid).name);
        return;
    }
    read_folder(pid, folder, sizeof folder);
    struct program program = program_in(words, folder);
    program_say(&out, &program, program_name_length(&program));
}
