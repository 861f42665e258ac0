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

/* What cuCheckpointProcess... makes of a process; the numbers are CUprocessState's. */
enum card_state { CARD_RUNNING, CARD_LOCKED, CARD_PARKED, CARD_FAILED };

enum card_answer {
    CARD_DONE,
    CARD_NO_PROCESS,  /* it has nothing of the card */
    CARD_WRONG_STATE, /* it is not in the state from which that leads */
    CARD_TIMEOUT,     /* its calls did not end in time: it runs on */
    CARD_NO_ROOM      /* it has failed for good: others have taken what it had */
};

/* Around each call that needs a context: the first returns once the process is neither locked nor
 * parked. NVIDIA: "any CUDA driver APIs which launch work, manage resources, or otherwise impact
 * the GPU state are locked" (cuda-checkpoint); others, as cuCtxGetCurrent, are not. */
bool card_file_enter(void); /* whether it was parked since its last call */
void card_file_leave(void);

bool card_file_state(int pid, enum card_state *state);
enum card_answer card_file_lock(int pid, unsigned timeout_ms);
enum card_answer card_file_park(int pid);
enum card_answer card_file_restore(int pid, size_t total_bytes);
enum card_answer card_file_unlock(int pid);

/* Others than the caller: their number, and what they have. out may be NULL. */
size_t card_file_others(int ordinal, struct card_user out[MAX_CARD_USERS]);
size_t card_file_others_bytes(int ordinal);

#endif
