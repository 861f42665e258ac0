/* process_stat.c: see process_stat.h. It must not be misled by a name: that is field 2, and may
 * hold spaces and brackets. The preloaded library needs it, too: no malloc, no stdio. */
#include "base/process_stat.h"
#include "base/file.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* proc_pid_stat(5). */
enum { STATE = 3, PARENT = 4, USER = 14, SYSTEM = 15, THREADS = 20, START = 22 };

struct process_stat process_stat(uint64_t pid) {
    char path[48], line[1024];
    struct text text = TEXT_IN(path);
    struct process_stat stat = {0};
    text_format(&text, "/proc/%lu/stat", pid);
    file_read_start(path, line, sizeof line);
    const char *name = strchr(line, '('), *p = strrchr(line, ')');
    if (name && p > name) {
        text = TEXT_IN(stat.name);
        text_add_n(&text, name + 1, (size_t)(p - name) - 1);
    }
    for (int field = STATE; p && field <= START && (p = strchr(p + 1, ' ')); field++) {
        stat.state = field == STATE ? p[1] : stat.state;
        stat.parent = field == PARENT ? strtoull(p, NULL, 10) : stat.parent;
        stat.worked_ticks += field == USER || field == SYSTEM ? strtoull(p, NULL, 10) : 0;
        stat.threads = field == THREADS ? strtoull(p, NULL, 10) : stat.threads;
        stat.start_ticks = field == START ? strtoull(p, NULL, 10) : stat.start_ticks;
    }
    return stat;
}

uint64_t process_start_ticks(uint64_t pid) {
    struct process_stat stat = process_stat(pid);
    bool ended = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
    return ended ? 0 : stat.start_ticks;
}

bool process_descends(uint64_t pid, const uint64_t *ancestors, size_t count) {
    enum { MOST_PARENTS = 64 };
    for (int i = 0; i < MOST_PARENTS && pid > 1; i++, pid = process_stat(pid).parent)
        for (size_t j = 0; j < count; j++)
            if (pid == ancestors[j])
                return true;
    return false;
}

uint64_t process_key(uint64_t pid) {
    uint64_t start = process_start_ticks(pid);
    return start ? pid << 32 | (uint32_t)start : 0;
}

bool process_key_lives(uint64_t key) {
    return key && process_key(key >> 32) == key;
}

/* ---- which program it is: no more of what it was told than the name of its script ---- */

static const char *next_word(const char *words) {
    words += strcspn(words, " ");
    return words + strspn(words, " ");
}

static bool is_python(const char *command) {
    const char *slash = memrchr(command, '/', strcspn(command, " "));
    return strncmp(slash ? slash + 1 : command, "python", 6) == 0;
}

/* All web UIs are "python launch.py" or alike: the interpreter and its options tell nothing, but
 * for -m and -c, which stand where a script would. A worker of multiprocessing's is known by that.
 */
static const char *without_interpreter(const char *command) {
    static const char worker[] = " -c from multiprocessing.";
    const char *word = next_word(command), *spawns = strstr(command, worker);
    if (!is_python(command))
        return command;
    if (spawns)
        return spawns + sizeof " -c from " - 1;
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
struct program_words program_in(const char *command_line, const char *working_folder) {
    struct program_words program;
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

size_t program_name_length(const struct program_words *program) {
    const char *command = program->command, *word = *command == '-' ? next_word(command) : command;
    return (size_t)(word - command) + strcspn(word, " ");
}

void program_say(struct text *out, const struct program_words *program, size_t length) {
    text_add(out, program->folder);
    text_add(out, *program->folder ? ": " : "");
    text_add_n(out, program->command, length);
}

static void read_folder(uint64_t pid, char *out, size_t capacity) {
    TEXT_OVER(text, path, 48);
    text_format(&text, "/proc/%lu/cwd", pid);
    ssize_t length = readlink(path, out, capacity - 1);
    out[length > 0 ? length : 0] = 0;
}

void program_of_process(uint64_t pid, char *name, size_t capacity) {
    char path[48], words[1024], folder[512];
    struct text text = TEXT_IN(path), out = text_in(name, capacity);
    text_format(&text, "/proc/%lu/cmdline", pid);
    size_t length = file_read_start(path, words, sizeof words);
    for (size_t i = 0; i + 1 < length; i++)
        words[i] = words[i] ? words[i] : ' ';
    if (length == 0 || !is_python(words)) {
        text_add(&out, process_stat(pid).name);
        return;
    }
    read_folder(pid, folder, sizeof folder);
    struct program_words program = program_in(words, folder);
    program_say(&out, &program, program_name_length(&program));
}
