/* witness.c: see witness.h. The second process must do nothing but wait, and never outlive the
 * first. */
#include "cli/witness.h"
#include "base/base.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sender signals several processes within this time, even one by one as systemd does. A program
 * that is signalled alone hears of it so much later. */
#define TOGETHER_NS (100 * MILLISECOND_NS)

struct heard {
    int number;
    uint64_t time_ns;
};

/* `pkill` finds processes by their name and command line: it must find this one if and only if it
 * finds the program. */
static void look_like(char *const *command) {
    char *start = program_invocation_name, *end = command[0];
    prctl(PR_SET_NAME, text_after_folder(command[0]));
    for (char *const *word = command; *word && *word >= end; word++)
        end = *word + strlen(*word) + 1;
    if (start >= command[0])
        return;
    size_t bytes = (size_t)(end - command[0]);
    memmove(start, command[0], bytes);
    memset(start + bytes, 0, (size_t)(end - start) - bytes);
}

_Noreturn static void tell_of(const sigset_t *signals, int told) {
    for (;;) {
        struct heard heard = {.number = sigwaitinfo(signals, NULL)};
        heard.time_ns = clock_ns();
        if (heard.number > 0 && write(told, &heard, sizeof heard) < 0 && errno != EAGAIN)
            _exit(0);
    }
}

void witness_start(struct witness *witness, const sigset_t *signals, char *const *command) {
    pid_t parent = getpid();
    int ends[2];
    *witness = (struct witness){.heard = -1};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    witness->heard = ends[0];
    witness->process = fork();
    if (witness->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        look_like(command);
        for (int standard = 0; standard <= 2; standard++)
            close(standard);
        if (getppid() == parent)
            tell_of(signals, ends[1]);
        _exit(0);
    }
    close(ends[1]);
}

bool witness_heard(const struct witness *witness, int number) {
    uint64_t now_ns = clock_ns(), until_ns = now_ns + TOGETHER_NS;
    struct pollfd ready = {.fd = witness->heard, .events = POLLIN};
    struct heard heard;
    for (; now_ns < until_ns; now_ns = clock_ns()) {
        int wait_ms = (int)((until_ns - now_ns) / MILLISECOND_NS) + 1;
        if (poll(&ready, 1, wait_ms) <= 0 || read(ready.fd, &heard, sizeof heard) <= 0)
            return false;
        if (heard.number == number && heard.time_ns + TOGETHER_NS > now_ns)
            return true;
    }
    return false;
}

void witness_end(struct witness *witness) {
    if (witness->process > 0) {
        kill(witness->process, SIGKILL);
        waitpid(witness->process, NULL, 0);
    }
    if (witness->heard >= 0)
        close(witness->heard);
    *witness = (struct witness){.heard = -1};
}
