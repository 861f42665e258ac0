/* state_folder.h: where vramgc keeps what outlives a process:
 * ${XDG_STATE_HOME:-~/.local/state}/vramgc. libc only, nothing allocated. */
#ifndef STATE_FOLDER_H
#define STATE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* The folder, whether it exists or not. False: the user has none, or its name is too long. */
bool state_folder(char *path, size_t capacity);

/* The one that takes its place where it cannot be written to, as in a container without a home. */
bool state_folder_instead(char *path, size_t capacity);

/* Makes the folder and those above it, for the user only. False with errno. path is as it was
 * afterwards. */
bool state_folder_make(char *path);

/* The pattern of the statistics files in the folder, as VRAMGC_OUT has them. False: too long. */
bool state_files(const char *folder, char *pattern, size_t capacity);

/* What VRAMGC_OUT stands for: for "auto", a pattern in a folder that is there then and that only
 * the user can write to; else the setting itself. False: no folder, or the name is too long. */
bool state_pattern(const char *setting, char *pattern, size_t capacity);

#endif
