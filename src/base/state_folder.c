/* state_folder.c: see state_folder.h. It must not trust a folder that others may write to. */
#include "base/state_folder.h"
#include "base/file.h"
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

bool state_folder_is_trusted(const char *path) {
    struct stat status;
    return !file_is_planted(path) && stat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
           file_is_trusted(&status);
}

bool state_files(const char *folder, char *pattern, size_t capacity) {
    struct text text = text_in(pattern, capacity);
    for (; *folder; folder++)
        text_add(&text, *folder == '%' ? "%%" : (const char[]){*folder, 0});
    text_add(&text, "/vramgc-%e.%p.vramgc");
    return text.length + 1 < capacity;
}

enum state_place state_folder_to_use(char *folder, size_t capacity) {
    static const struct {
        bool (*folder)(char *, size_t);
        enum state_place place;
    } places[] = {{state_folder, STATE_AS_SET}, {state_folder_instead, STATE_INSTEAD}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].folder(folder, capacity) && state_folder_make(folder) &&
            state_folder_is_trusted(folder) && access(folder, W_OK | X_OK) == 0)
            return places[i].place;
    return STATE_NOWHERE;
}

static enum state_place find_state_files(char *pattern, size_t capacity) {
    char folder[1024];
    enum state_place place = state_folder_to_use(folder, sizeof folder);
    return place != STATE_NOWHERE && state_files(folder, pattern, capacity) ? place : STATE_NOWHERE;
}

enum state_place state_pattern(const char *setting, char *pattern, size_t capacity) {
    enum state_place place = STATE_AS_SET;
    if (strcmp(setting, "auto") == 0)
        place = find_state_files(pattern, capacity);
    else if (strcmp(setting, "/dev/null") == 0)
        *pattern = 0;
    else if (strlen(setting) < capacity)
        text_copy(pattern, capacity, setting);
    else
        place = STATE_NOWHERE;
    if (place == STATE_NOWHERE)
        *pattern = 0;
    return place;
}

void state_place_note(enum state_place place, const char *where, char *note, size_t capacity) {
    struct text text = text_in(note, capacity);
    if (place == STATE_NOWHERE)
        text_add(&text, "no folder for statistics: neither HOME, XDG_STATE_HOME nor TMPDIR names "
                        "one that can be written to; this run leaves no file (see VRAMGC_OUT)");
    else if (place == STATE_INSTEAD)
        text_format(&text,
                    "statistics go to %s: neither HOME nor XDG_STATE_HOME names a folder that can "
                    "be written to",
                    where);
}
