/* watch.c: see watch.h. It sends the programs nothing and never outlives what it was started for.
 */
#include "cli/watch.h"
#include "cli/alert_commands.h"
#include "cli/cli.h"
#include "cli/park_idle.h"
#include "read/records.h"
#include "read/running.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/process_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An out-of-memory is told at the second of these looks; the library knows within a tenth of a
 * second whether it was one (track/event_log.h). */
#define LOOK_NS (SECOND_NS / 4)
/* Programs begin seldom. */
#define FIND_NS SECOND_NS
/* A script that starts both, one behind the other, does so within this time on a busy machine (seen
 * there: more than 2 s). */
#define TOGETHER_NS (10 * SECOND_NS)
/* The commands get this when the program has ended: half of what `docker stop` waits before it
 * kills a container, by default. */
#define END_NS (5 * SECOND_NS)
/* Those whose file lies elsewhere are looked for among all processes, for 1 % of the time. */
enum { SHARE = 100, MOST_PIDS = 64 };

struct watched {
    struct watched *next;
    uint64_t started_ns; /* the program: another one may write its file at the same path */
    bool over;
    struct alert_seen seen;
    char path[];
};

static struct {
    const struct alert_rules *rules;
    struct watched *list;
    const char *pattern, *run_id; /* of `vramgc run`, else NULL */
    uint64_t pids[MOST_PIDS], pid_starts[MOST_PIDS];
    size_t pid_count;
    uint64_t began_ns, found_ns;
    bool says; /* that it began */
    bool tests;
    const volatile sig_atomic_t *stopped;
} self;

/* ---- which files ---- */

static void watch_file(const char *path, uint64_t started_ns) {
    for (struct watched *watched = self.list; watched; watched = watched->next) {
        bool same = strcmp(watched->path, path) == 0;
        if (same && watched->started_ns == started_ns)
            return;
        watched->over |= same;
    }
    struct watched *fresh = calloc(1, sizeof *fresh + strlen(path) + 1);
    if (!fresh)
        return;
    fresh->started_ns = started_ns;
    memcpy(fresh->path, path, strlen(path));
    fresh->next = self.list;
    self.list = fresh;
}

static void find_of_run(void) {
    struct kept kept = kept_find_as(self.pattern);
    for (size_t i = 0; i < kept.count; i++)
        if (strcmp(kept.files[i].peek.run_id, self.run_id) == 0)
            watch_file(kept.files[i].path, kept.files[i].peek.started_ns);
    kept_free(&kept);
}

/* One of those that were named, or started by one. */
static bool is_named_or_below(uint64_t pid) {
    return self.pid_count == 0 || process_descends(pid, self.pids, self.pid_count);
}

static void find_running(void) {
    struct kept kept = kept_find();
    for (size_t i = 0; i < kept.count; i++) { /* at once, and one that ends soon, too */
        const struct stats_peek *peek = &kept.files[i].peek;
        if (peek->started_ns >= self.began_ns && is_named_or_below(peek->pid))
            watch_file(kept.files[i].path, kept.files[i].peek.started_ns);
    }
    kept_free(&kept);
    struct running running = running_find();
    for (size_t i = 0; i < running.count; i++)
        if (is_named_or_below(running.list[i].pid))
            watch_file(running.list[i].record->path, running.list[i].record->file->started_ns);
    running_free(&running);
}

/* ---- looking ---- */

static void look_at_program(struct watched *watched, bool last) {
    char ignored[256];
    if (self.rules->count == 0) { /* only parked: that needs a few words of the file */
        watched->over = !park_idle_lives(watched->path);
        return;
    }
    struct stats_file *record = stats_file_load(watched->path, ignored, sizeof ignored);
    watched->over = record && record->state != PROCESS_RUNNING;
    if (record)
        alert_look(self.rules, &watched->seen, record, self.began_ns, last || watched->over,
                   alert_commands_take);
    if (record && watched->over && !self.run_id) /* a run may have many, one after the other */
        alert_commands_over(record->file->pid);
    stats_file_free(record);
}

static void watch_look(bool last) {
    uint64_t now = clock_ns();
    if (last || now - self.found_ns >= FIND_NS) {
        self.found_ns = now;
        if (self.run_id)
            find_of_run();
        else
            find_running();
    }
    for (struct watched *watched = self.list; watched; watched = watched->next) {
        if (!watched->over)
            look_at_program(watched, last);
        if (watched->over)
            park_idle_forget(watched->path);
    }
    alert_commands_turn();
}

static bool any_pid_lives(void) {
    for (size_t i = 0; i < self.pid_count; i++)
        if (process_lives(self.pids[i], self.pid_starts[i]))
            return true;
    return false;
}

/* The last happening is the one that ended the program: no pause keeps it from being told. */
static void await_commands(void) {
    alert_commands_last();
    watch_look(true);
    for (uint64_t end_ns = clock_ns() + END_NS;
         alert_commands_run() && !*self.stopped && clock_ns() < end_ns;) {
        sleep_ns(LOOK_NS / 25);
        alert_commands_turn();
    }
    if (!*self.stopped)
        alert_commands_say_late(END_NS);
}

/* On standard error, as complaints: of a service it goes into the journal. */
static void say_begin(void) {
    size_t count = 0;
    for (const struct watched *watched = self.list; watched; watched = watched->next)
        count += !watched->over;
    complain("watching %zu program%s, and those that begin%s", count, count == 1 ? "" : "s",
             isatty(STDIN_FILENO) ? "; Ctrl-C ends it" : "");
}

/* channel: ready once whoever started us says that it is over, or is gone; -1: there is none. */
static void watch_until_over(int channel) {
    struct pollfd over = {.fd = channel, .events = POLLIN};
    bool last = false;
    uint64_t looked_ns = clock_ns();
    alert_commands_begin(self.rules, false);
    watch_look(false);
    if (self.says)
        say_begin();
    while (!last && !*self.stopped) {
        uint64_t now = clock_ns();
        if (now - looked_ns >= LOOK_NS) {
            looked_ns = now;
            watch_look(false);
        }
        for (struct watched *watched = self.list; watched; watched = watched->next)
            if (!watched->over)
                park_idle_look(watched->path);
        last = poll(&over, 1, (int)(park_idle_step_ns(LOOK_NS) / MILLISECOND_NS)) > 0 ||
               (self.pid_count > 0 && !any_pid_lives());
    }
    park_idle_end();
    if (!*self.stopped)
        await_commands();
    alert_commands_kill();
}

/* ---- beside `vramgc run` ---- */

/* The signals are for the program. Our end of the channel is all that is kept open, and standard
 * error, for complaints and what the commands write. */
_Noreturn static void be_beside(int channel) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    self.stopped = stop_catch(); /* none comes */
    prctl(PR_SET_NAME, "vramgc watch");
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    syscall(SYS_close_range, STDERR_FILENO + 1, channel - 1, 0); /* not in Linux before 5.9 */
    syscall(SYS_close_range, channel + 1, ~0U, 0);
    watch_until_over(channel);
    _exit(0);
}

/* Not in the place of a standard stream that is closed: complaints would be written into it. */
static int apart(int fd) {
    int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 2);
    close(fd);
    return high;
}

void watch_beside_start(struct watch_beside *beside, const struct alert_rules *rules,
                        uint64_t park_ns, const char *pattern, const char *run_id) {
    int ends[2];
    *beside = (struct watch_beside){.channel = -1};
    if ((rules->count == 0 && !park_ns) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    ends[0] = apart(ends[0]);
    ends[1] = apart(ends[1]);
    beside->process = fork();
    if (beside->process == 0) {
        self.rules = rules;
        park_idle_begin(park_ns);
        self.pattern = pattern;
        self.run_id = run_id;
        close(ends[0]);
        be_beside(ends[1]);
    }
    if (beside->process < 0)
        complain("no command of VRAMGC_ON will be started: %s", strerror(errno));
    beside->channel = ends[0];
    close(ends[1]);
}

void watch_beside_last(const struct watch_beside *beside) {
    if (beside->channel >= 0)
        shutdown(beside->channel, SHUT_WR);
}

void watch_beside_end(const struct watch_beside *beside) {
    struct pollfd gone = {.fd = beside->channel, .events = POLLIN};
    if (beside->channel >= 0)
        poll(&gone, 1, (int)((END_NS + SECOND_NS) / MILLISECOND_NS));
}

/* ---- the command ---- */

static bool take_pids(char *const *operands, int count) {
    for (int i = 0; i < count; i++) {
        uint64_t pid = 0, start = 0;
        bool fine = self.pid_count < MOST_PIDS && parse_count(operands[i], &pid) &&
                    (start = process_start_ticks(pid));
        if (!fine) {
            complain("%s is not the number of a process; without one, `vramgc watch` looks at all",
                     operands[i]);
            return false;
        }
        self.pids[self.pid_count] = pid;
        self.pid_starts[self.pid_count++] = start;
    }
    return true;
}

static void say_wrong(const char *why) {
    complain("%s: %s", settings_typed(settings_find("on")) ? "--on" : "VRAMGC_ON", why);
}

/* A test is of all whose program is there, and then fails for the others. */
static bool read_rules(struct alert_rules *rules, size_t *missing) {
    const char *value = getenv(settings_find("on")->variable);
    char why[256];
    value = value ? value : "";
    bool fine = self.tests ? alert_rules_read(rules, value, why, sizeof why)
                           : alert_commands_read(rules, value, why, sizeof why);
    if (!fine)
        say_wrong(why);
    else if (self.tests)
        *missing = alert_commands_leave_out(rules, say_wrong);
    return fine && (rules->count > 0 || *missing == 0);
}

static int watch_main(struct args *args) {
    static struct alert_rules rules;
    size_t missing = 0;
    if (!take_pids(args->argv, args->operand_count) || !read_rules(&rules, &missing))
        return STATUS_USAGE;
    struct options options;
    settings_read_environment(&options);
    park_idle_begin(options.park);
    if (rules.count == 0 && (self.tests || !options.park)) {
        complain(self.tests
                     ? "there is no rule to test. Type: vramgc watch --test --on 'oom:echo {}'"
                     : "there is no rule. Type, for a notification when memory runs out: "
                       "vramgc watch --on 'oom:notify-send vramgc {}'");
        return STATUS_USAGE;
    }
    self.stopped = stop_catch();
    self.rules = &rules;
    self.began_ns = minus_u64(clock_ns(), TOGETHER_NS);
    self.says = settings_typed(settings_find("on")) ||
                settings_typed(settings_find("park")); /* not of `env` */
    running_spare(SHARE);
    if (self.tests)
        alert_commands_try(&rules, self.stopped);
    else
        watch_until_over(-1);
    stop_end();
    missing += self.tests ? alert_commands_failed() : 0;
    return missing > 0 ? STATUS_BAD_INPUT : STATUS_FINE;
}

static const struct flag flags[] = {
    {"on", 0, "WHEN:COMMAND", "start COMMAND at WHEN; may be given several times",
     .take = settings_take},
    {"park", 0, "DURATION", "a program leaves the card when it has not used it for so long",
     .take = settings_take},
    {"test", 0, NULL, "run each rule's command once, with a sample, and say how it ended",
     .on = &self.tests},
};

const struct command watch_command = {
    "watch",
    GROUP_RUNNING,
    "[PID...]",
    "run a command when memory runs out or grows, or a card fills",
    "For example: vramgc watch --on 'oom:notify-send vramgc {}'\n"
    "\n"
    "WHEN\toom: a program is out of memory. growth: its memory grows from job to job. 90%: so much "
    "of a card is in use. Several have | between.\n"
    "COMMAND\ta program and its words, between spaces. A word {} becomes what happened, in a "
    "sentence.\n"
    "!COMMAND\ta line for a shell, to its end; there the sentence is \"$VRAMGC_ALERT_MESSAGE\".\n"
    "\n"
    "With PID only that program and those it starts are watched, until it ends; else all of "
    "yours, until interrupted. `vramgc run --on` watches by itself, `vramgc env --on` has the line "
    "for webui-user.sh. In VRAMGC_ON several rules stand on lines of their own, or with ; "
    "between.\n"
    "\n"
    "A rule's command runs once at a time, for 30 seconds at most, and at most once a minute; only "
    "the program's end is told at once. With --test it runs once, now.\n"
    "\n"
    "COMMAND finds more in variables: VRAMGC_ALERT is WHEN, VRAMGC_ALERT_PROGRAM the whole command "
    "line, VRAMGC_ALERT_COUNT how often it happened since this command last ran. There are "
    "VRAMGC_ALERT_PID, _FILE, _DEVICE, _BUS_ID, _TOTAL_BYTES, _USED_BYTES, _HELD_BYTES, "
    "_LIVE_BYTES and _REQUEST_BYTES.\n",
    FLAGS(flags),
    .main = watch_main,
};
