/* alert_commands.c: see alert_commands.h. A command is another's program, and runs as that: in a
 * process group of its own, with no input, no vramgc in front of it and no signal blocked. What
 * happened it finds in its environment, so that no shell ever reads a program's words as its own.
 */
#include "cli/alert_commands.h"
#include "base/base.h"
#include "base/text.h"
#include "cli/hint.h"
#include "read/complain.h"
#include "read/units.h"

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

void alert_commands_begin(const struct alert_rules *rules, bool says_all) {
    self.rules = rules;
    self.says_all = says_all;
}

/* ---- what it is told ---- */

__attribute__((format(printf, 2, 3))) static void set_alert_variable(struct slot *slot,
                                                                     const char *format, ...) {
    va_list values;
    char *text = NULL;
    va_start(values, format);
    if (slot->variable_count < VARIABLES && vasprintf(&text, format, values) >= 0)
        slot->variables[slot->variable_count++] = text;
    va_end(values);
}

static void add_number(struct slot *slot, const char *name, uint64_t value) {
    set_alert_variable(slot, "VRAMGC_ALERT_%s=%lu", name, value);
}

static void add_card_variables(struct slot *slot, const struct alert *alert) {
    const struct vramgc_device *device = alert->device;
    add_number(slot, "DEVICE", (uint64_t)(device - alert->record->file->devices));
    set_alert_variable(slot, "VRAMGC_ALERT_BUS_ID=%s", device->bus_id);
    add_number(slot, "TOTAL_BYTES", device->total_bytes);
    add_number(slot, "USED_BYTES", device->stats.used_bytes.current);
    add_number(slot, "HELD_BYTES", device->stats.held_bytes.current);
    add_number(slot, "LIVE_BYTES", device->stats.live_bytes.current);
}

static void forget_alert(struct slot *slot) {
    while (slot->variable_count > 0)
        free(slot->variables[--slot->variable_count]);
    slot->waiting = 0;
}

/* Several programs on one card see together that it is full. */
static bool was_just_told(const struct slot *slot, const struct alert *alert) {
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
    if (was_just_told(slot, alert))
        return;
    forget_alert(slot);
    slot->waiting = before + alert->times;
    memcpy(slot->bus_id, alert->device ? alert->device->bus_id : "",
           alert->device ? sizeof slot->bus_id : 1);
    copy_message(slot, alert);
    slot->pid = alert->record->file->pid;
    set_alert_variable(slot, "VRAMGC_ALERT=%s", self.rules->list[alert->rule].when);
    set_alert_variable(slot, "VRAMGC_ALERT_MESSAGE=%s", slot->message);
    add_number(slot, "COUNT", slot->waiting);
    add_number(slot, "PID", alert->record->file->pid);
    set_alert_variable(slot, "VRAMGC_ALERT_PROGRAM=%s", alert->record->file->command_line);
    set_alert_variable(slot, "VRAMGC_ALERT_FILE=%s", alert->record->path);
    if (alert->device)
        add_card_variables(slot, alert);
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
static void split_words(char *text, const char *message, const char *words[WORDS]) {
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

static void start_command(struct slot *slot, const struct alert_rule *rule) {
    const char *shell[] = {"/bin/sh", "-c", rule->command, NULL}, *words[WORDS];
    char *text = strdup(rule->command), **environment = environment_for(slot);
    int error = ENOMEM;
    slot->started_ns = clock_ns();
    slot->started = true;
    slot->no_pause = false;
    if (text && environment) {
        split_words(text, slot->message, words);
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
    forget_alert(slot);
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
            start_command(slot, rule);
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

/* ---- a trial: each once, with a sample. Nothing in it is anybody's, for a command may end the
 * process, or move the file, that it is told of ---- */

static struct {
    struct vramgc_file file;
    struct vramgc_refusal refusal;
    struct stats_file record;
    const struct alert_rule *rule;
    size_t number; /* of the rule */
} sample;

static void take_sample(const struct alert *alert) {
    struct alert told = *alert;
    struct text text = TEXT_IN(told.message);
    text_format(&text, "A test of %s, nothing has happened: ", sample.rule->when);
    if (told.count_length > 0)
        told.count += text.length;
    text_add(&text, alert->message);
    told.rule = sample.number;
    alert_commands_take(&told);
}

/* A card that is as full as the rule says, or nearly full. */
static void fill_card(struct vramgc_device *device) {
    const uint64_t total = (uint64_t)8 << 30, others = (uint64_t)480 << 20;
    uint64_t free = sample.rule->kind == ALERT_USE
                        ? (uint64_t)((double)total * (100 - sample.rule->percent) / 100)
                        : (uint64_t)300 << 20;
    uint64_t used = total - free, held = minus_u64(used, others);
    memset(device, 0, sizeof *device);
    device->present = 1;
    device->total_bytes = total;
    text_copy(device->bus_id, sizeof device->bus_id, "0000:01:00.0");
    device->stats.used_bytes = (struct vramgc_gauge){used, used};
    device->stats.held_bytes = (struct vramgc_gauge){held, held};
    device->stats.live_bytes = (struct vramgc_gauge){held / 8 * 7, held / 8 * 7};
}

static void run_out(struct vramgc_device *device) {
    uint64_t held = device->stats.held_bytes.current, live = device->stats.live_bytes.current;
    sample.refusal = (struct vramgc_refusal){.sequence = 1,
                                             .time_ns = SECOND_NS,
                                             .cause = VRAMGC_CAUSE_FULL,
                                             .reported = VRAMGC_REPORTED,
                                             .request_bytes = (uint64_t)2 << 30,
                                             .allocated_bytes = live,
                                             .reserved_bytes = held,
                                             .held_bytes = held,
                                             .idle_bytes = held - live,
                                             .total_bytes = device->total_bytes};
    sample.refusal.free_bytes = device->total_bytes - device->stats.used_bytes.current;
    sample.record.refusals[sample.record.refusal_count++] = &sample.refusal;
    device->stats.ooms = 1;
}

/* More stays after each job, up to what is live now. */
static void let_grow(struct vramgc_device *device) {
    struct vramgc_floors *floors = &device->floors;
    enum { TIMES = 40, STEP = 64 << 20 };
    floors->merged = 1;
    for (floors->count = 0; floors->count < TIMES; floors->count++)
        floors->bytes[floors->count] =
            device->stats.live_bytes.current - (TIMES - floors->count) * STEP;
    floors->turns = floors->count;
}

/* The words are those of a real one. */
static void tell_sample(const struct alert_rules *rules, size_t number) {
    struct alert_rules one = {.list = {rules->list[number]}, .count = 1};
    struct alert_seen seen = {0};
    struct vramgc_device *device = sample.file.devices;
    sample.rule = &rules->list[number];
    sample.number = number;
    sample.record.refusal_count = 0;
    fill_card(device);
    if (sample.rule->kind == ALERT_OOM)
        run_out(device);
    if (sample.rule->kind == ALERT_GROWTH)
        let_grow(device);
    alert_look(&one, &seen, &sample.record, 0, true, take_sample);
}

void alert_commands_try(const struct alert_rules *rules, const volatile sig_atomic_t *stopped) {
    char path[] = "/tmp/vramgc-test-XXXXXX";
    int made = mkstemp(path); /* it stays empty: a command that copies it has one */
    sample.record = (struct stats_file){
        .file = &sample.file, .path = path, .state = PROCESS_RUNNING, .code = -1};
    sample.file.pid = (uint64_t)getpid();
    sample.file.device_count = 1;
    text_copy(sample.file.command_line, sizeof sample.file.command_line, "vramgc watch --test");
    alert_commands_begin(rules, true);
    for (size_t i = 0; i < rules->count; i++)
        tell_sample(rules, i);
    for (alert_commands_turn(); alert_commands_run() && !*stopped; alert_commands_turn())
        sleep_ns(10 * MILLISECOND_NS);
    alert_commands_kill();
    if (made >= 0)
        unlink(path);
}
