/* process_stat.h: what the kernel tells of a process in /proc/PID/stat, and in the words by which a
 * person knows it which program it is: one rule for whatever shows, writes down or asks for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct process_stat {
    char name[64]; /* as `ps -o comm` has it */
    char state;    /* of its main thread: R, S, Z, ...; 0: there is no such process */
    uint64_t parent, threads;
    uint64_t worked_ticks; /* of all its threads, on processors */
    uint64_t start_ticks;  /* since boot: tells two processes of one id apart */
};

struct process_stat process_stat(uint64_t pid);

/* Its start_ticks, or 0 when there is none or it has ended and nobody has waited for it yet (but
 * for a main thread that ended before the others). */
uint64_t process_start_ticks(uint64_t pid);

/* True: it is one of these processes, or was started by one, or by one of those that it started. */
bool process_descends(uint64_t pid, const uint64_t *ancestors, size_t count);

/* The process in one word, its id and the lower half of its start: together no other process has
 * them, also when the id is given to one. 0: there is none. */
uint64_t process_key(uint64_t pid);
bool process_key_lives(uint64_t key);

struct program_words {
    char folder[256];    /* the last part: as a rule all that tells one web UI from another */
    const char *command; /* of the command line: from the script on, "main.py --listen" */
};
struct program_words program_in(const char *command_line, const char *working_folder);

/* So much of its command is its name: "main.py", "-m invokeai". */
size_t program_name_length(const struct program_words *program);

/* "FOLDER: " and so much of its command. */
void program_say(struct text *out, const struct program_words *program, size_t length);

/* "ComfyUI: main.py" where Python runs it, else what the kernel calls it; empty: there is no such
 * process. */
void program_of_process(uint64_t pid, char *name, size_t capacity);
