/* preload.h: what goes into LD_PRELOAD. The loader takes neither a space nor a colon in a path, and
 * would run the program without us: such a path is named by a link, or refused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The path of libvramgc.so: beside this program, in vramgc/ below ../lib, its
 * folder for this machine, or ../lib64, or in ../lib; never in the
 * working directory as such. Where the loader cannot take it, a link in the state folder leads
 * there, which this makes. False, with a sentence in error, when the library is missing or when the
 * loader could take neither. */
bool preload_library(char *path, size_t capacity, char *error, size_t error_capacity);

/* The installed allocator of that name (jemalloc, tcmalloc, mimalloc). False: not found. */
bool preload_allocator(const char *name, char *path, size_t capacity);

/* True for a start script that would add TCMalloc to an empty LD_PRELOAD: a
 * webui*.sh, also behind a shell, that speaks of tcmalloc, and NO_TCMALLOC is not set. */
bool preload_script_adds_tcmalloc(char *const *command);

/* library, allocator (may be ""), then what LD_PRELOAD holds already, without what is there twice.
 * The result is to be freed; NULL without memory. */
char *preload_join(const char *library, const char *allocator, const char *existing);
