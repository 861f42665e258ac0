/* phases.c: see phases.h. It must not know how functions are found. */
#include "python/phases.h"

#include "base/base.h"
#include "base/file.h"
#include "base/log.h"

#include <string.h>

/* Of the user's own; the built-in ones (phases.def) are about as many. The longest built-in phase
 * has 12 letters, the longest pattern 42. */
enum { MOST_ROWS = 64, PHASE_BYTES = 24, PATTERN_BYTES = 96 };

struct row {
    char phase[PHASE_BYTES], module[PATTERN_BYTES], function[PATTERN_BYTES];
};

static struct {
    struct row rows[MOST_ROWS];
    size_t count;
} self;

static const struct {
    const char *phase, *module, *function;
} table[] = {
#define PHASE(phase, module, function) {phase, module, function},
#include "phases.def"
};

static const struct {
    const char *module, *function;
} machinery[] = {
#define MACHINERY(module, function) {module, function},
#include "phases.def"
};

/* A star may take more each time that the rest does not fit; only the latest one needs to. */
static bool pattern_fits(const char *pattern, const char *text) {
    const char *star = NULL, *taken = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            taken = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++taken;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == 0;
}

static bool fits_module(const char *pattern, const char *module) {
    bool some_end = *module == '.';
    for (; module; module = strchr(module, '.')) {
        module += *module == '.';
        if (pattern_fits(pattern, module))
            return true;
        if (!some_end)
            return false;
    }
    return false;
}

/* Behind the folder, if the path lies in it; else NULL. */
static const char *path_below(const char *path, const char *folder) {
    size_t bytes = strlen(folder);
    bool within = bytes > 1 && strncmp(path, folder, bytes) == 0 && path[bytes] == '/';
    return within ? path + bytes + 1 : NULL;
}

static const char *in_package(const char *path) {
    static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++) {
        const char *found = strstr(path, folders[i]);
        if (found)
            return found + strlen(folders[i]);
    }
    return NULL;
}

static size_t length_without(const char *text, size_t length, const char *ending) {
    size_t bytes = strlen(ending);
    bool ends = length >= bytes && memcmp(text + length - bytes, ending, bytes) == 0;
    return ends ? length - bytes : length;
}

/* Python's own come as "<frozen runpy>", what was made while it runs as "<eval_with_key>.0". */
void phases_module(const char *path, const char *root, char *out, size_t capacity) {
    static const char frozen[] = "<frozen ";
    const char *package = in_package(path), *own = path_below(path, root);
    bool is_frozen = strncmp(path, frozen, sizeof frozen - 1) == 0;
    const char *from = package ? package : own ? own : is_frozen ? path + sizeof frozen - 1 : path;
    size_t bytes = length_without(from, strlen(from), is_frozen ? ">" : ".py");
    bytes = length_without(from, bytes, "/__init__");
    size_t length = 0;
    if (!package && *from != '/' && *path != '<')
        out[length++] = '.';
    for (size_t i = 0; i < bytes && length + 1 < capacity; i++)
        out[length++] = from[i] == '/' ? '.' : from[i];
    out[length] = 0;
}

bool phases_is_machinery(const char *module, const char *function) {
    for (size_t i = 0; i < ARRAY_LENGTH(machinery); i++)
        if (fits_module(machinery[i].module, module) &&
            pattern_fits(machinery[i].function, function))
            return true;
    return false;
}

const char *phases_find(const char *module, const char *function) {
    for (size_t i = 0; i < self.count; i++)
        if (fits_module(self.rows[i].module, module) &&
            pattern_fits(self.rows[i].function, function))
            return self.rows[i].phase;
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++)
        if (fits_module(table[i].module, module) && pattern_fits(table[i].function, function))
            return table[i].phase;
    return "";
}

/* ---- the user's rows ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The last word of a line, which is cut off there, with the blanks before it. Empty: there is none,
 * or it is too long. */
static void cut_word(const char *line, size_t *length, char *out, size_t capacity) {
    size_t end = *length;
    while (end > 0 && is_blank(line[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && !is_blank(line[begin - 1]))
        begin--;
    size_t bytes = end - begin;
    out[0] = 0;
    if (bytes < capacity) {
        memcpy(out, line + begin, bytes);
        out[bytes] = 0;
    }
    *length = begin;
    while (*length > 0 && is_blank(line[*length - 1]))
        --*length;
}

static bool add_line(const char *line, size_t length) {
    struct row row = {0};
    cut_word(line, &length, row.function, sizeof row.function);
    cut_word(line, &length, row.module, sizeof row.module);
    if (!*row.function || !*row.module || length == 0 || length >= sizeof row.phase ||
        self.count == MOST_ROWS)
        return false;
    memcpy(row.phase, line, length);
    self.rows[self.count++] = row;
    return true;
}

size_t phases_add(const char *text, size_t *first) {
    size_t bad = 0;
    for (size_t number = 1; *text; number++) {
        text += strspn(text, " \t\r");
        size_t length = strcspn(text, "\n");
        if (length > 0 && *text != '#' && !add_line(text, length) && bad++ == 0)
            *first = number;
        text += length + (text[length] == '\n');
    }
    return bad;
}

/* 256 bytes for each row that there may be, which has 216 at most. */
enum { MOST_FILE_BYTES = 256 * MOST_ROWS };

void phases_read_file(const char *path) {
    char text[MOST_FILE_BYTES];
    size_t first = 0;
    size_t length = file_read_start(path, text, sizeof text);
    size_t bad = phases_add(text, &first);
    if (length == 0)
        LOG(LOG_WARN,
            "VRAMGC_FUNCTIONS: %s cannot be read, or is empty; functions are named all "
            "the same",
            path);
    else if (bad)
        LOG(LOG_WARN,
            "VRAMGC_FUNCTIONS: line %zu of %s, and %zu more, are not PHASE MODULE FUNCTION, or "
            "too many; the others hold",
            first, path, bad - 1);
}
