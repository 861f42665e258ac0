/* One card for several processes: SIMGPU_CARD=FILE. Those that name the same file have the memory
 * of each device together; what a process had that is gone is free again. */
#ifndef SIM_CARD_FILE_H
#define SIM_CARD_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_CARD_USERS = 32 };

struct card_user {
    int pid;
    size_t bytes;
};

/* The calling process has so much of the device from now on. False: others had taken it; nothing is
 * changed. Always true without SIMGPU_CARD. total_bytes: of the device. */
bool card_file_set(int ordinal, size_t bytes, size_t total_bytes);

/* Others than the caller: their number, and what they have. out may be NULL. */
size_t card_file_others(int ordinal, struct card_user out[MAX_CARD_USERS]);
size_t card_file_others_bytes(int ordinal);

#endif
