/* alert_commands.c: see alert_commands.h. A command is another's program, and runs as that: in a
 * process group of its own, with no input, no vramgc in front of it and no signal blocked. What
 * happened it finds in its environment, so that no shell ever reads a program's words as its own.
 */
#include "cli/alert_commands.h"
#include "cli/hint.h"
#include "read/complain.h"
#include "read/units.h"
#include "base/base.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* As Nagios does by default (notification_timeout). */
#define LONGEST_NS (30 * SECOND_NS)
/* From one start to the next of the same rule: how often Prometheus looks by default
 * (evaluation_interval). What happens meanwhile is counted and told then. */
#define PAUSE_NS (60 * SECOND_NS)

/* Of an alert that is told of, the most: variables that it sets; words of its command. */
enum { VARIABLES = 14, WORDS = 64 };

struct slot {
    pid_t process; /* 0: none runs */
    uint64_t started_ns;
    bool killed, started;
    char bus_id[sizeof((struct vramgc_device *)0)->bus_id]; /* of the latest alert */
    bool no_pause;
    uint64_t waiting; /* so many times, of which the latest: */
    uint64_t pid;
    char *variables[VARIABLES];
    size_t variable_count;
    char message[sizeof((struct alert *)0)->message];
};

static struct {
    const struct alert_rules *rules;
    struct slot slots[ALERT_RULES_MAX];
    bool last, says_all;
    size_t failed;
} self;

static void say_missing(const char *program, struct text *why) {
    char instead[PATH_MAX];
    hint_program(program, instead, sizeof instead);
    text_format(why, access(program, F_OK) == 0 ? "%s cannot be run" : "there is no program %s",
                program);
    if (strcmp(instead, program) != 0)
        text_format(why, ": did you mean %s?", instead);
    else if (strcmp(program, "notify-send") == 0)
        text_add(why, " (Debian, Ubuntu: libnotify-bin)");
}

/* False, with a sentence in why: its program is missing. */
static bool can_run(const struct alert_rule *rule, char *why, size_t capacity) {
    char program[PATH_MAX];
    const char *command = rule->command + strspn(rule->command, " \t");
    struct text text = TEXT_IN(program);
    text_add_n(&text, command, strcspn(command, " \t"));
    if (rule->shell || hint_can_run(program))
        return true;
    struct text reason = text_in(why, capacity);
    text_format(&reason, "%s:%s: ", rule->when, rule->command);
    say_missing(program, &reason);
    return false;
}

bool alert_commands_read(struct alert_rules *rules, const char *value, char *why, size_t capacity) {
    bool fine = alert_rules_read(rules, value, why, capacity);
    for (size_t i = 0; fine && i < rules->count; i++)
        fine = can_run(&rules->list[i], why, capacity);
    return fine;
}

size_t alert_commands_leave_out(struct alert_rules *rules, void (*say)(const char *why)) {
    char why[256];
    size_t read = rules->count;
    rules->count = 0;
    for (size_t i = 0; i < read; i++)
        if (can_run(&rules->list[i], why, sizeof why))
            rules->list[rules->count++] = rules->list[i];
        else
            say(why);
    return read - rules->count;
}

void alert_commands_begin(const struct alert_rules *rules) {
    self.rules = rules;
}

void alert_commands_say_all(void) {
    self.says_all = true;
}

/* ---- what it is told ---- */

__attribute__((format(printf, 2, 3))) static void add(struct slot *slot, const char *format, ...) {
    va_list values;
    char *text = NULL;
    va_start(values, format);
    if (slot->variable_count < VARIABLES && vasprintf(&text, format, values) >= 0)
        slot->variables[slot->variable_count++] = text;
    va_end(values);
}

static void add_number(struct slot *slot, const char *name, uint64_t value) {
    add(slot, "VRAMGC_ALERT_%s=%llu", name, (unsigned long long)value);
}

static void add_device(struct slot *slot, const struct alert *alert) {
    const struct vramgc_device *device = alert->device;
    add_number(slot, "DEVICE", (uint64_t)(device - alert->record->file->devices));
    add(slot, "VRAMGC_ALERT_BUS_ID=%s", device->bus_id);
    add_number(slot, "TOTAL_BYTES", device->total_bytes);
    add_number(slot, "USED_BYTES", device->stats.used_bytes.current);
    add_number(slot, "HELD_BYTES", device->stats.held_bytes.current);
    add_number(slot, "LIVE_BYTES", device->stats.live_bytes.current);
}

static void forget(struct slot *slot) {
    while (slot->variable_count > 0)
        free(slot->variables[--slot->variable_count]);
    slot->waiting = 0;
}

/* Several programs on one card see together that it is full. */
static bool is_known(const struct slot *slot, const struct alert *alert) {
    return self.rules->list[alert->rule].kind == ALERT_USE && slot->started &&
           strcmp(slot->bus_id, alert->device->bus_id) == 0 &&
           clock_ns() - slot->started_ns < PAUSE_NS;
}

/* Those that it has waited with, too. */
static void copy_message(struct slot *slot, const struct alert *alert) {
    struct text text = TEXT_IN(slot->message);
    text_add_n(&text, alert->message, alert->count);
    if (alert->count)
        text_add(&text, show_count(slot->waiting).text);
    text_add(&text, alert->message + alert->count + alert->count_length);
}

void alert_commands_take(const struct alert *alert) {
    struct slot *slot = &self.slots[alert->rule];
    uint64_t before = slot->waiting;
    if (is_known(slot, alert))
        return;
    forget(slot);
    slot->waiting = before + alert->times;
    memcpy(slot->bus_id, alert->device ? alert->device->bus_id : "",
           alert->device ? sizeof slot->bus_id : 1);
    copy_message(slot, alert);
    slot->pid = alert->record->file->pid;
    add(slot, "VRAMGC_ALERT=%s", self.rules->list[alert->rule].when);
    add(slot, "VRAMGC_ALERT_MESSAGE=%s", slot->message);
    add_number(slot, "COUNT", slot->waiting);
    add_number(slot, "PID", alert->record->file->pid);
    add(slot, "VRAMGC_ALERT_PROGRAM=%s", alert->record->file->command_line);
    add(slot, "VRAMGC_ALERT_FILE=%s", alert->record->path);
    if (alert->device)
        add_device(slot, alert);
    if (alert->request_bytes)
        add_number(slot, "REQUEST_BYTES", alert->request_bytes);
}

/* ---- starting ---- */

/* Ours, without what would load vramgc into it or set it. NULL without memory. */
static char **environment_for(const struct slot *slot) {
    size_t count = 0, to = 0;
    while (environ[count])
        count++;
    char **result = malloc((count + VARIABLES + 1) * sizeof *result);
    for (size_t i = 0; result && i < count; i++)
        if (strncmp(environ[i], "VRAMGC_", 7) != 0 && strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            result[to++] = environ[i];
    for (size_t i = 0; result && i < slot->variable_count; i++)
        result[to++] = slot->variables[i];
    if (result)
        result[to] = NULL;
    return result;
}

/* {} is the message. The words lie in `text`. */
static void split(char *text, const char *message, const char *words[WORDS]) {
    size_t count = 0;
    for (char *word; (word = strsep(&text, " \t")) && count < WORDS - 1;)
        if (*word)
            words[count++] = strcmp(word, "{}") == 0 ? message : word;
    words[count] = NULL;
}

static int spawn(pid_t *process, const char *const *words, char **environment) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    int error = ENOENT;
    if (words[0])
        error = hint_error(words[0], posix_spawnp(process, words[0], &files, &how,
                                                  (char *const *)words, environment));
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static void start(struct slot *slot, const struct alert_rule *rule) {
    const char *shell[] = {"/bin/sh", "-c", rule->command, NULL}, *words[WORDS];
    char *text = strdup(rule->command), **environment = environment_for(slot);
    int error = ENOMEM;
    slot->started_ns = clock_ns();
    slot->started = true;
    slot->no_pause = false;
    if (text && environment) {
        split(text, slot->message, words);
        error = spawn(&slot->process, rule->shell ? shell : words, environment);
    }
    slot->process = error ? 0 : slot->process;
    slot->killed = false;
    self.failed += error != 0;
    if (!error && self.says_all)
        complain("--on %s: `%s` runs, for %d s at most", rule->when, rule->command,
                 (int)(LONGEST_NS / SECOND_NS));
    if (error)
        complain("--on %s: `%s` cannot be run: %s", rule->when, rule->command, strerror(error));
    free(environment);
    free(text);
    forget(slot);
}

/* ---- ending ---- */

static void kill_group(struct slot *slot) {
    kill(-slot->process, SIGKILL);
    slot->killed = true;
    self.failed++;
}

static void say_end(const struct alert_rule *rule, int status) {
    self.failed += status != 0;
    if (status != 0 || self.says_all)
        complain("--on %s: `%s` %s, %s %d", rule->when, rule->command,
                 status ? "failed" : "ended well", WIFSIGNALED(status) ? "signal" : "exit status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void look_after(struct slot *slot, const struct alert_rule *rule) {
    int status;
    pid_t ended = waitpid(slot->process, &status, WNOHANG);
    if (ended == 0 && !slot->killed && clock_ns() - slot->started_ns > LONGEST_NS) {
        complain("--on %s: `%s` took longer than %d s and was ended", rule->when, rule->command,
                 (int)(LONGEST_NS / SECOND_NS));
        kill_group(slot);
    }
    if (ended == 0)
        return;
    if (ended > 0 && !slot->killed)
        say_end(rule, status);
    slot->process = 0;
}

void alert_commands_turn(void) {
    for (size_t i = 0; i < self.rules->count; i++) {
        struct slot *slot = &self.slots[i];
        const struct alert_rule *rule = &self.rules->list[i];
        if (slot->process)
            look_after(slot, rule);
        bool rests = !self.last && !slot->no_pause && slot->started &&
                     clock_ns() - slot->started_ns < PAUSE_NS;
        if (slot->waiting && !slot->process && !rests)
            start(slot, rule);
    }
}

void alert_commands_over(uint64_t pid) {
    for (size_t i = 0; i < self.rules->count; i++)
        if (self.slots[i].waiting && self.slots[i].pid == pid)
            self.slots[i].no_pause = true;
}

void alert_commands_last(void) {
    self.last = true;
}

static bool is_due(const struct slot *slot) {
    return slot->process || (self.last && slot->waiting);
}

bool alert_commands_run(void) {
    for (size_t i = 0; i < self.rules->count; i++)
        if (is_due(&self.slots[i]))
            return true;
    return false;
}

void alert_commands_say_late(uint64_t after_ns) {
    for (size_t i = 0; i < self.rules->count; i++)
        if (is_due(&self.slots[i]))
            complain("--on %s: `%s` was ended %d s after the program%s", self.rules->list[i].when,
                     self.rules->list[i].command, (int)(after_ns / SECOND_NS),
                     self.slots[i].waiting ? ", and not told what came meanwhile" : "");
}

void alert_commands_kill(void) {
    for (size_t i = 0; i < self.rules->count; i++)
        if (self.slots[i].process)
            kill_group(&self.slots[i]);
}

size_t alert_commands_failed(void) {
    return self.failed;
}
