/* launch.c: see launch.h. */
#include "cli/launch.h"
#include "base/base.h"
#include "cli/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* The program must find these as this process found them. */
struct inherited {
    sigset_t mask;
    struct sigaction child_action;
};

/* From here on the signals wait for sigwaitinfo(), so that none is lost between fork and wait. */
static void hold_signals(struct inherited *inherited, sigset_t *held) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigemptyset(held);
    sigaddset(held, SIGCHLD);
    for (size_t i = 0; i < ARRAY_LENGTH(passed_on); i++)
        sigaddset(held, passed_on[i]);
    /* Were SIGCHLD ignored, waitpid() would not tell how the program ended. */
    sigaction(SIGCHLD, &standard, &inherited->child_action);
    sigprocmask(SIG_BLOCK, held, &inherited->mask);
}

static void become(char *const *command, const struct inherited *inherited, int report) {
    sigaction(SIGCHLD, &inherited->child_action, NULL);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
    execvp(command[0], command);
    int error = errno;
    ssize_t written = write(report, &error, sizeof error);
    (void)written;
    _exit(127);
}

/* The errno that the child reported, or 0 when its end of the pipe was closed by exec. */
static int read_report(int report) {
    int error = 0;
    ssize_t got;
    do
        got = read(report, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof error ? error : 0;
}

static bool from_terminal(const siginfo_t *info) {
    return info->si_code == SI_KERNEL;
}

/* Whether the child has ended. As process 1 of a container we get the orphans of all others, too,
 * and no other process waits for those. */
static bool reap(struct launch *launch) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == launch->child) {
            launch->wait_status = status;
            return true;
        }
    return false;
}

/* Whether the program has got the signal without us. */
static bool has_it(const siginfo_t *info, const struct witness *witness) {
    return from_terminal(info) || witness_heard(witness, info->si_signo);
}

static void wait_for(struct launch *launch, const sigset_t *held, const struct witness *witness,
                     void (*stop_asked)(void)) {
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(held, &info);
        if (number == SIGINT)
            launch->interrupted = true;
        if (number > 0 && number != SIGCHLD && !has_it(&info, witness))
            kill(launch->child, number);
        if (number == SIGINT || number == SIGTERM || number == SIGHUP)
            stop_asked();
        if (number == SIGCHLD && reap(launch))
            return;
    }
}

bool launch_run(char *const *command, struct launch *launch, void (*stop_asked)(void)) {
    struct inherited inherited;
    struct witness witness;
    sigset_t held;
    int pipe_ends[2];
    uint64_t start_ns = clock_ns();
    *launch = (struct launch){0};
    hold_signals(&inherited, &held);
    witness_start(&witness, &held, command); /* before there is a pipe that it would hold open */
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return false;
    launch->child = fork();
    if (launch->child == 0)
        become(command, &inherited, pipe_ends[1]);
    int error = errno;
    close(pipe_ends[1]);
    if (launch->child > 0) {
        launch->exec_error = read_report(pipe_ends[0]);
        wait_for(launch, &held, &witness, stop_asked);
        launch->elapsed_ns = clock_ns() - start_ns;
    }
    witness_end(&witness);
    close(pipe_ends[0]);
    errno = error;
    return launch->child > 0;
}

void launch_mirror(const struct launch *launch) {
    if (WIFEXITED(launch->wait_status))
        exit(WEXITSTATUS(launch->wait_status));
    int number = WTERMSIG(launch->wait_status);
    struct rlimit no_core = {0, 0};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t only;
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_DUMPABLE, 0); /* a core that is piped to a program knows no limit */
    sigemptyset(&only);
    sigaddset(&only, number);
    sigaction(number, &standard, NULL);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
    exit(128 + number);
}
