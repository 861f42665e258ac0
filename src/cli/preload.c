/* preload.c: see preload.h. */
#include "cli/preload.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/state_folder.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libvramgc.so"
#define TRIPLET "x86_64-linux-gnu"

/* The folder of this program, without a slash at its end. */
static bool own_folder(char *folder, size_t capacity) {
    ssize_t length = readlink("/proc/self/exe", folder, capacity - 1);
    if (length <= 0 || (size_t)length >= capacity - 1)
        return false;
    folder[length] = 0;
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = 0;
    return true;
}

/* ld.so(8): LD_PRELOAD is split at spaces and colons, nothing can be quoted, and $ORIGIN, $LIB and
 * $PLATFORM are replaced. */
static const char *loader_trouble(const char *path) {
    if (strchr(path, ' '))
        return "a space";
    if (strchr(path, ':'))
        return "a colon";
    return strchr(path, '$') ? "a dollar sign" : NULL;
}

static bool leads_to(const char *link, const char *folder) {
    char target[PATH_MAX];
    ssize_t length = readlink(link, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    return strcmp(target, folder) == 0;
}

/* Another name for the library's folder: a link in the state folder, which is there after a
 * restart, too, for the lines of `vramgc env` name it. False: the loader would not take that
 * either, or it cannot be made. */
static bool link_library(const char *library, char *path, size_t capacity) {
    char folder[PATH_MAX], state[PATH_MAX], link[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)(text_after_folder(library) - library), library);
    if (!state_folder(state, sizeof state) || loader_trouble(state) || !state_folder_make(state) ||
        !state_folder_is_trusted(state))
        return false;
    struct text text = TEXT_IN(link);
    text_format(&text, "%s/preload-%016lx", state, text_hash(folder));
    if (symlink(folder, link) != 0 && !leads_to(link, folder))
        return false;
    text = text_in(path, capacity);
    text_format(&text, "%s/" LIBRARY, link);
    return access(path, R_OK) == 0;
}

bool preload_library(char *path, size_t capacity, char *error, size_t error_capacity) {
    static const char *const places[] = {"", "/../lib/vramgc", "/../lib/" TRIPLET "/vramgc",
                                         "/../lib64/vramgc", "/../lib"};
    char folder[PATH_MAX], candidate[PATH_MAX + 64], real[PATH_MAX];
    if (!own_folder(folder, sizeof folder)) {
        snprintf(error, error_capacity, "cannot find out where vramgc lies: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
        snprintf(candidate, sizeof candidate, "%s%s/" LIBRARY, folder, places[i]);
        if (!realpath(candidate, real) || access(real, R_OK) != 0)
            continue;
        const char *trouble = loader_trouble(real);
        if (trouble && link_library(real, path, capacity))
            return true;
        if (!trouble && strlen(real) < capacity) {
            memcpy(path, real, strlen(real) + 1);
            return true;
        }
        snprintf(error, error_capacity,
                 "the loader cannot preload a path with %s: %s; move vramgc elsewhere",
                 trouble ? trouble : "so many characters", real);
        return false;
    }
    snprintf(error, error_capacity, "%s is neither in %s nor in its ../lib/vramgc or ../lib",
             LIBRARY, folder);
    return false;
}

static bool try_file(const char *folder, size_t length, const char *name, char *path,
                     size_t capacity) {
    int wanted = snprintf(path, capacity, "%.*s/%s", (int)length, folder, name);
    return length > 0 && wanted > 0 && (size_t)wanted < capacity && access(path, R_OK) == 0 &&
           !loader_trouble(path);
}

/* Looks where the loader looks: LD_LIBRARY_PATH, then the usual folders of Debian, Fedora and Arch.
 * The loader's cache is not read, since its format is no interface. */
static bool find_library(const char *name, char *path, size_t capacity) {
    static const char *const folders[] = {
        "/usr/local/lib", "/usr/lib/" TRIPLET, "/lib/" TRIPLET, "/usr/lib64",
        "/lib64",         "/usr/lib",          "/lib"};
    const char *list = getenv("LD_LIBRARY_PATH");
    while (list && *list) {
        size_t length = strcspn(list, ":;");
        if (*list == '/' && try_file(list, length, name, path, capacity))
            return true;
        list += length;
        list += *list != 0;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++)
        if (try_file(folders[i], strlen(folders[i]), name, path, capacity))
            return true;
    return false;
}

bool preload_allocator(const char *name, char *path, size_t capacity) {
    /* For TCMalloc the order in which webui.sh finds them. */
    static const struct {
        const char *name;
        const char *file;
    } files[] = {{"jemalloc", "libjemalloc.so.2"},
                 {"tcmalloc", "libtcmalloc_minimal.so.4"},
                 {"tcmalloc", "libtcmalloc.so.4"},
                 {"mimalloc", "libmimalloc.so.2"}};
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        if (strcmp(files[i].name, name) == 0 && find_library(files[i].file, path, capacity))
            return true;
    return false;
}

/* The script a command runs: itself, or what a shell is given. NULL: neither. */
static const char *script_of(char *const *command) {
    const char *script = command[0];
    if (parse_choice(text_after_folder(script), "sh|bash|dash") >= 0) {
        size_t i = 1;
        while (command[i] && command[i][0] == '-' && strchr(command[i], 'c') == NULL)
            i++;
        script = command[i] && command[i][0] != '-' ? command[i] : NULL;
    }
    if (!script)
        return NULL;
    const char *name = text_after_folder(script);
    size_t length = strlen(name);
    bool fits = strstr(name, "webui") && length > 3 && strcmp(name + length - 3, ".sh") == 0;
    return fits ? script : NULL;
}

static bool speaks_of_tcmalloc(const char *path) {
    char line[512];
    bool found = false;
    FILE *stream = fopen(path, "re");
    while (stream && !found && fgets(line, sizeof line, stream))
        found = strstr(line, "tcmalloc") != NULL;
    if (stream)
        fclose(stream);
    return found;
}

bool preload_script_adds_tcmalloc(char *const *command) {
    const char *unwanted = getenv("NO_TCMALLOC");
    const char *script = unwanted && *unwanted ? NULL : script_of(command);
    return script && speaks_of_tcmalloc(script);
}

static bool is_preload_word(const char *word, size_t length, const char *other) {
    return strlen(other) == length && memcmp(word, other, length) == 0;
}

char *preload_join(const char *library, const char *allocator, const char *existing) {
    size_t capacity = strlen(library) + strlen(allocator) + strlen(existing) + 3;
    char *joined = malloc(capacity);
    if (!joined)
        return NULL;
    int length = snprintf(joined, capacity, "%s%s%s", library, *allocator ? ":" : "", allocator);
    size_t at = (size_t)length;
    while (*existing) {
        size_t word = strcspn(existing, " :");
        if (word > 0 && !is_preload_word(existing, word, library) &&
            !is_preload_word(existing, word, allocator)) {
            joined[at++] = ':';
            memcpy(joined + at, existing, word);
            at += word;
        }
        existing += word;
        existing += *existing != 0;
    }
    joined[at] = 0;
    return joined;
}
