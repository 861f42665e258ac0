/* state_folder.c: see state_folder.h. It must not trust a folder that others may write to. */
#include "base/state_folder.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool state_folder(char *path, size_t capacity) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct text text = text_in(path, capacity);
    if (state && *state == '/')
        text_add(&text, state);
    else if (home && *home == '/')
        text_format(&text, "%s/.local/state", home);
    else
        return false;
    text_add(&text, "/vramgc");
    return text.length + 1 < capacity;
}

bool state_folder_instead(char *path, size_t capacity) {
    const char *temporary = getenv("TMPDIR");
    struct text text = text_in(path, capacity);
    text_format(&text, "%s/vramgc-%lu", temporary && *temporary == '/' ? temporary : "/tmp",
                (unsigned long)geteuid());
    return text.length + 1 < capacity;
}

bool state_folder_make(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int made = mkdir(path, 0700);
        int error = errno;
        *slash = '/';
        if (made && error != EEXIST && error != EROFS && error != EACCES) {
            errno = error;
            return false;
        }
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Nobody else can put a file, or a link, there. */
static bool is_ours(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           !(status.st_mode & (S_IWGRP | S_IWOTH)) && access(path, W_OK | X_OK) == 0;
}

bool state_files(const char *folder, char *pattern, size_t capacity) {
    struct text text = text_in(pattern, capacity);
    for (; *folder; folder++)
        text_add(&text, *folder == '%' ? "%%" : (const char[]){*folder, 0});
    text_add(&text, "/vramgc-%e.%p.vramgc");
    return text.length + 1 < capacity;
}

bool state_pattern(const char *setting, char *pattern, size_t capacity) {
    bool (*const places[])(char *, size_t) = {state_folder, state_folder_instead};
    char folder[1024];
    if (strcmp(setting, "auto") != 0) {
        text_copy(pattern, capacity, setting);
        return strlen(setting) < capacity;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i](folder, sizeof folder) && state_folder_make(folder) && is_ours(folder))
            return state_files(folder, pattern, capacity);
    return false;
}
