/* running.h: the programs of this user that run under vramgc now, found by their statistics files:
 * where they lie by themselves, and where a process has mapped one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "read/stats_file.h"

struct running_process {
    uint64_t pid; /* as we number it: in a container it may have another number */
    struct stats_file *record;
    int cpu_percent; /* of one processor, from one look to the next; -1: not known */
};

/* A program that uses CUDA without vramgc. */
struct running_stranger {
    uint64_t pid;
    char folder[256];  /* in which it runs */
    char command[256]; /* as it was started, in words that a shell takes; harmless */
};

enum { RUNNING_STRANGERS = 4 }; /* are named; `vramgc top` counts no others */

struct running {
    struct running_process *list; /* by pid */
    size_t count;
    struct running_stranger strangers[RUNNING_STRANGERS]; /* of this user */
    size_t stranger_count;
};

/* Programs that were found before are read again at each call; new ones are looked for at most a
 * twentieth of the time, since there may be many processes. To be given back; empty when memory is
 * lacking. */
struct running running_find(void);

/* The record of one of them that has its file in its memory, so that all see what is written there;
 * NULL: there is none. */
struct stats_file *running_with_mapping(uint64_t pid);

/* The device's figures as they are in its file by now. */
void running_read_device(const struct running_process *process, size_t index);

/* True: it uses CUDA without vramgc, as strangers do; false also where that may not be read. */
bool running_is_stranger(uint64_t pid);

/* Sets cpu_percent of each program that was seen before. */
void running_note_load(struct running *running);

/* Longer from one look for new ones to the next: a look takes 1/share of the time at most. */
void running_spare(unsigned share);

void running_free(struct running *running);
