/* launch.h: starts a program, stays as its parent without being noticed, and ends as it ended.
 * Knows nothing of vramgc. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct launch {
    pid_t child;
    int wait_status;
    int exec_error;   /* errno of a program that could not be started; 0: it was started */
    bool interrupted; /* SIGINT arrived while the program ran */
    uint64_t elapsed_ns;
};

/* Runs the command (NULL-terminated, found by PATH) to its end with the environment as it is.
 * False, with errno, when there is no process to be had.
 *
 * Signals: SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 do not end this process. One that
 * a process sent (kill) is passed on; one from the terminal, or that was sent to the program, too,
 * is not, since the program has it already. The program starts with the signal mask and
 * dispositions that this process was started with, in the same process group and terminal.
 * stop_asked is called at each SIGINT, SIGTERM and SIGHUP. */
bool launch_run(char *const *command, struct launch *launch, void (*stop_asked)(void));

/* Ends this process as the program ended: same exit status, or by the same signal, without a second
 * core file; 128 + signal where that signal does not end us. */
_Noreturn void launch_mirror(const struct launch *launch);
