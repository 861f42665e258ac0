/* Another process is stopped, and what it has of the card goes to the host and comes back: driver
 * 570 (CUDA 12.8) and newer. Here only processes that share a card (SIMGPU_CARD) find each other.
 * Contents and addresses stay; a restore that finds no room fails for good, as on a card. */
#include "card_file.h"
#include "driver.h"

static CUresult result_of(enum card_answer answer) {
    static const CUresult results[] = {
        [CARD_DONE] = CUDA_SUCCESS,
        [CARD_NO_PROCESS] = CUDA_ERROR_INVALID_VALUE,
        [CARD_WRONG_STATE] = CUDA_ERROR_ILLEGAL_STATE,
        [CARD_TIMEOUT] = CUDA_ERROR_NOT_READY,
        [CARD_NO_ROOM] = CUDA_ERROR_OUT_OF_MEMORY,
    };
    return results[answer];
}

static CUresult answer(const char *function, enum card_answer answer) {
    return sim_end(function, result_of(answer));
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state) {
    BEGIN(NEED_INIT);
    enum card_state known = CARD_RUNNING;
    bool there = state != NULL && card_file_state(pid, &known);
    if (there)
        *state = (CUprocessState)known;
    END(there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
    BEGIN(NEED_INIT);
    return answer(__func__, card_file_lock(pid, args != NULL ? args->timeoutMs : 0));
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args) {
    BEGIN(NEED_INIT);
    (void)args;
    return answer(__func__, card_file_park(pid));
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
    BEGIN(NEED_INIT);
    (void)args;
    return answer(__func__, card_file_restore(pid, sim.config.mem_bytes));
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args) {
    BEGIN(NEED_INIT);
    (void)args;
    return answer(__func__, card_file_unlock(pid));
}

/* Any thread may do it here. */
CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid) {
    BEGIN(NEED_INIT);
    if (tid != NULL)
        *tid = pid;
    END(tid != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
