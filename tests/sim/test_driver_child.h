/* Settings are read once in a process, so that each case runs in a child; whoever includes this
 * must not use the device itself. */
#ifndef TEST_DRIVER_CHILD_H
#define TEST_DRIVER_CHILD_H

#include "test_driver.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[4096]; /* What the last child wrote to stderr. */

/* Runs a function in a child with one setting; returns the status that waitpid gives. */
static int child_with(const char *name, const char *value, int (*function)(void)) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        setenv(name, value, 1);
        _exit(function());
    }
    close(pipe_ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(pipe_ends[0], said + used, sizeof said - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = '\0';
    close(pipe_ends[0]);
    int status;
    waitpid(child, &status, 0);
    return status;
}

static int start(void) {
    CUcontext context;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        return 100;
    return cuCtxSetCurrent(context) == CUDA_SUCCESS ? 0 : 101;
}

#endif
