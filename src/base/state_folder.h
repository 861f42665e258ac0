/* state_folder.h: where vramgc keeps what outlives a process:
 * ${XDG_STATE_HOME:-~/.local/state}/vramgc. libc only, nothing allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The folder, whether it exists or not. False: the user has none, or its name is too long. */
bool state_folder(char *path, size_t capacity);

/* The one that takes its place where it cannot be written to, as in a container without a home. */
bool state_folder_instead(char *path, size_t capacity);

/* Makes the folder and those above it, for the user only. False with errno. path is as it was
 * afterwards. */
bool state_folder_make(char *path);

/* True: no other user can put a file, or a link, there. */
bool state_folder_is_trusted(const char *path);

/* The pattern of the statistics files in the folder, as VRAMGC_OUT has them. False: too long. */
bool state_files(const char *folder, char *pattern, size_t capacity);

enum state_place {
    STATE_NOWHERE, /* no folder can be had, or the name is too long: the pattern is empty */
    STATE_AS_SET,
    STATE_INSTEAD, /* in the folder that takes the place of the state folder */
};

/* The folder that this user's programs share, made if need be; only the user can write to it. */
enum state_place state_folder_to_use(char *folder, size_t capacity);

/* The meaning of VRAMGC_OUT: for "auto", a pattern in a folder that is there then and that only
 * the user can write to; for /dev/null none; else the setting itself. */
enum state_place state_pattern(const char *setting, char *pattern, size_t capacity);

/* The sentence for the user, the pattern or file being `where`; empty: nothing. */
void state_place_note(enum state_place place, const char *where, char *note, size_t capacity);
