/* hint.c: see hint.h. It looks for files and must run none. */
#include "cli/hint.h"
#include "cli/cli.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How: as access() takes it. */
static bool is_on_path(const char *word, int how) {
    char path[PATH_MAX];
    const char *folders = getenv("PATH");
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        struct text text = TEXT_IN(path);
        text_add_n(&text, folders, length);
        text_format(&text, "/%s", word);
        if (access(path, how) == 0)
            return true;
        folders += length;
        folders += *folders == ':';
    }
    return false;
}

int hint_error(const char *word, int error) {
    bool found = strchr(word, '/') || is_on_path(word, F_OK);
    return error == EACCES && !found ? ENOENT : error;
}

bool hint_is_program(const char *word) {
    return access(word, F_OK) == 0 || (!strchr(word, '/') && is_on_path(word, X_OK));
}

bool hint_can_run(const char *word) {
    return strchr(word, '/') ? access(word, X_OK) == 0 : is_on_path(word, X_OK);
}

static const char *interpreter_of(const char *word) {
    size_t length = strlen(word);
    const char *ending = word + (length > 3 ? length - 3 : 0);
    if (strcmp(ending, ".py") == 0)
        return is_on_path("python", X_OK) ? "python " : "python3 ";
    return strcmp(ending, ".sh") == 0 ? "bash " : "";
}

/* A shell, and execvp(), look for a word without a slash in PATH only. */
static void add_program(struct text *text, const char *word) {
    bool here = access(word, F_OK) == 0 && (strchr(word, '/') || !is_on_path(word, X_OK));
    if (here && access(word, X_OK) != 0)
        text_format(text, "%s%s", interpreter_of(word), word);
    else if (here && !strchr(word, '/'))
        text_format(text, "./%s", word);
    else if (strcmp(word, "python") == 0 && !is_on_path(word, X_OK) && is_on_path("python3", X_OK))
        text_add(text, "python3");
    else
        text_add(text, word);
}

void hint_program(const char *word, char *out, size_t capacity) {
    struct text text = text_in(out, capacity);
    add_program(&text, word);
}

void hint_run(char *const *words, char *out, size_t capacity) {
    struct text text = text_in(out, capacity);
    text_add(&text, "vramgc run ");
    add_program(&text, words[0]);
    for (size_t i = 1; words[i]; i++)
        text_format(&text, " %s", words[i]);
}

void hint_not_started(char *const *words, char *out, size_t capacity) {
    char program[PATH_MAX];
    struct text text = text_in(out, capacity), as_run = TEXT_IN(program);
    add_program(&as_run, words[0]);
    if (strcmp(program, words[0]) != 0) {
        text_add(&text, "; did you mean: ");
        hint_run(words, out + text.length, capacity - text.length);
    } else if (settings_find(words[0])) {
        text_format(&text, "; did you mean --%s?", words[0]);
    } else if (strchr(words[0], '=')) {
        text_format(&text, "; a variable stands before vramgc: %s vramgc run", words[0]);
    } else if (strncmp(words[0], "./", 2) == 0 && access(words[0], F_OK) != 0 &&
               getcwd(program, sizeof program)) {
        text_format(&text, "; is %s the folder of your web UI?", program);
    }
}

static const char *const meant[][2] = {
#define MEANT(words, answer) {words, answer},
#include "cli/hints.def"
#undef MEANT
};

const char *hint_meant(const char *word) {
    for (size_t i = 0; i < ARRAY_LENGTH(meant); i++)
        if (parse_choice(word, meant[i][0]) >= 0)
            return meant[i][1];
    return NULL;
}
