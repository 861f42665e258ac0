/* memory.h: how much memory the host has, for the moment when it refuses some; and how much of
 * it this process has taken. */
#pragma once

#include <stdint.h>

struct host_memory {
    uint64_t total_bytes, available_bytes; /* 0: not known */
};

/* Allocates nothing and takes no lock. */
struct host_memory host_memory_read(void);

/* Of this process, resident but for the last. 0: not known. */
struct host_memory_own {
    uint64_t anon_bytes, shared_bytes, file_bytes, swap_bytes;
};

struct host_memory_own host_memory_own(void);

/* The same, from the text of /proc/PID/status. */
struct host_memory_own host_memory_in(const char *status);

/* Resident, without files that are mapped: memory that only this process can give back. 0: not
 * known. */
uint64_t host_memory_own_bytes(void);

/* Notes the program's share of the host's memory in the statistics file: where it is killed for
 * lack of memory, the file is what is left to tell of it. By our own thread only, about once a
 * second: some small files of the kernel are read, which takes 0.06 ms. */
void host_note(void);
