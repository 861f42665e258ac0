/* launch.c: see launch.h. The program gets each signal once, whoever else it was sent to:
 *
 *     sent by the terminal, to all in its foreground       the program has it
 *     sent by a process to us alone                        it is passed on
 *     to our process group, our control group, or all
 *       that `pkill` finds by a word of the program's      the program has it
 *
 * Nothing tells the last two apart but a second receiver: the listener, a process that whatever
 * finds the program finds, too, and that tells us what it gets. It does nothing else, and ends with
 * us. */
#include "cli/launch.h"
#include "base/base.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sender signals several processes within this time, even one by one as systemd does. A program
 * that is signalled alone hears of it so much later. */
#define TOGETHER_NS (100 * MILLISECOND_NS)

static struct {
    sigset_t relayed, held; /* held: these, and SIGCHLD; they wait for sigwaitinfo() */
    sigset_t inherited;     /* the program must find both as this process found them */
    struct sigaction inherited_child_action;
    pid_t listener; /* 0 or less: there is none */
} self;

/* By which the listener tells of a signal, and when it came. */
static int listener_word(int number) {
    return SIGRTMIN + number;
}

/* From here on none is lost between fork and wait. */
static void hold_signals(void) {
    static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t blocked;
    sigemptyset(&self.relayed);
    sigemptyset(&blocked);
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        sigaddset(&self.relayed, numbers[i]);
        sigaddset(&blocked, listener_word(numbers[i]));
    }
    self.held = self.relayed;
    sigaddset(&self.held, SIGCHLD);
    sigorset(&blocked, &blocked, &self.held);
    /* Were SIGCHLD ignored, waitpid() would not tell how the program ended. */
    sigaction(SIGCHLD, &standard, &self.inherited_child_action);
    sigprocmask(SIG_BLOCK, &blocked, &self.inherited);
}

/* ---- who else got a signal ---- */

/* `pkill` goes by a process's name and its command line, which are from here on the program's. The
 * latter is where the words of our own lie, of which the program's are the last. */
static void be_found_as(char *const *command) {
    char *line = program_invocation_name, *words = command[0], *end = words;
    prctl(PR_SET_NAME, text_after_folder(command[0]));
    for (char *const *word = command; *word && *word >= end; word++)
        end = *word + strlen(*word) + 1;
    if (line >= words)
        return;
    memmove(line, words, (size_t)(end - words));
    memset(line + (end - words), 0, (size_t)(words - line));
}

_Noreturn static void listen_for(pid_t parent) {
    for (;;) {
        int number = sigwaitinfo(&self.relayed, NULL);
        union sigval when = {.sival_ptr = (void *)(uintptr_t)clock_ns()};
        if (number > 0 && sigqueue(parent, listener_word(number), when) != 0 && errno != EAGAIN)
            _exit(0);
    }
}

static void start_listener(char *const *command) {
    pid_t parent = getpid();
    self.listener = fork();
    if (self.listener != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be_found_as(command);
    for (int standard = 0; standard <= 2; standard++)
        close(standard);
    if (getppid() == parent)
        listen_for(parent);
    _exit(0);
}

/* Waits for so long as a sender may take. A word of before is of a signal that we did not get. */
static bool listener_got(int number) {
    uint64_t now_ns = clock_ns(), until_ns = now_ns + TOGETHER_NS;
    sigset_t word;
    sigemptyset(&word);
    sigaddset(&word, listener_word(number));
    for (; self.listener > 0 && now_ns < until_ns; now_ns = clock_ns()) {
        struct timespec left = {.tv_nsec = (long)(until_ns - now_ns)};
        siginfo_t said;
        if (sigtimedwait(&word, &said, &left) < 0)
            return false;
        if ((uintptr_t)said.si_value.sival_ptr + TOGETHER_NS > now_ns)
            return true;
    }
    return false;
}

/* ---- the program ---- */

static void become(char *const *command, int report) {
    sigaction(SIGCHLD, &self.inherited_child_action, NULL);
    sigprocmask(SIG_SETMASK, &self.inherited, NULL);
    execvp(command[0], command);
    int error = errno;
    ssize_t written = write(report, &error, sizeof error);
    (void)written;
    _exit(127);
}

/* The errno that the child reported, or 0 when its end of the pipe was closed by exec. */
static int read_report(int report) {
    int error = 0;
    ssize_t got = read(report, &error, sizeof error); /* no signal is let in */
    return got == (ssize_t)sizeof error ? error : 0;
}

/* True once the program has ended. As process 1 of a container we get the orphans of all others,
 * too, and no other process waits for those. */
static bool reap(struct launch *launch) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == launch->child) {
            launch->wait_status = status;
            return true;
        }
    return false;
}

static void relay_until_end(struct launch *launch, void (*stop_asked)(void)) {
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(&self.held, &info);
        if (number == SIGINT)
            launch->interrupted = true;
        bool by_terminal = info.si_code == SI_KERNEL; /* to the program, too */
        if (number > 0 && number != SIGCHLD && !by_terminal && !listener_got(number))
            kill(launch->child, number);
        if (number == SIGINT || number == SIGTERM || number == SIGHUP)
            stop_asked();
        if (number == SIGCHLD && reap(launch))
            return;
    }
}

bool launch_run(char *const *command, struct launch *launch, void (*stop_asked)(void)) {
    int pipe_ends[2];
    uint64_t start_ns = clock_ns();
    *launch = (struct launch){0};
    hold_signals();
    start_listener(command); /* before there is a pipe that it would hold open */
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return false;
    launch->child = fork();
    if (launch->child == 0)
        become(command, pipe_ends[1]);
    int error = errno;
    close(pipe_ends[1]);
    if (launch->child > 0) {
        launch->exec_error = read_report(pipe_ends[0]);
        relay_until_end(launch, stop_asked);
        launch->elapsed_ns = clock_ns() - start_ns;
    }
    if (self.listener > 0) {
        kill(self.listener, SIGKILL);
        waitpid(self.listener, NULL, 0);
    }
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
