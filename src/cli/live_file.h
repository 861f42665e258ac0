/* live_file.h: the statistics file of a program that runs, to be written beside the program. */
#pragma once

#include "vramgc_format.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a process; NULL without a word. */
struct vramgc_file *live_file_find(uint64_t pid);
/* The only program under vramgc of that name; 0 after a complaint that says which there are. */
uint64_t live_file_pid(const char *name);

/* A point on its timeline. */
void live_file_mark(struct vramgc_file *file, const char *label);

/* The same by the file's path, whoever's it is, without a word where that fails: NULL with errno. A
 * pipe or a link, which another user may have put there, is not opened. */
struct vramgc_file *live_file_map(const char *path);

void live_file_close(struct vramgc_file *file); /* may be NULL */
