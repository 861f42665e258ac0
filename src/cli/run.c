/* run.c: the command `vramgc run`: puts the library in front of a program, waits, and tells what
 * happened. The program must not be able to notice it but by the library. */
#include "cli/alert_commands.h"
#include "cli/cli.h"
#include "show/export_formats.h"
#include "cli/hint.h"
#include "read/derived.h"
#include "read/records.h"
#include "cli/launch.h"
#include "read/outfile.h"
#include "cli/preload.h"
#include "cli/prove_first.h"
#include "cli/watch.h"
#include "show/summary.h"
#include "show/summary_lines.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/state_folder.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    struct options options;
    char *const *command;
    const char *json;
    const char *allocator; /* as typed; NULL: not typed */
    bool no_summary, quiet, verbose;
    char library[PATH_MAX];
    char allocator_path[PATH_MAX];
    char *pattern;     /* of the statistics files, absolute */
    char *log_pattern; /* of VRAMGC_LOG_FILE, absolute; "": none */
    char run_id[48];
    char command_text[1024];
    struct alert_rules rules;
    struct watch_beside watch;
    struct launch launch;
} run;

static bool take_verbose(const struct args *args) {
    (void)args;
    return setenv("VRAMGC_LOG", "info", 0) == 0;
}

/* A value of an option such as --lowvram stands behind a = only. */
static bool take_command(const struct args *args) {
    run.command = args->argv + args->next;
    if (*run.command && args->next > 1 && parse_choice(*run.command, "0|1") >= 0 &&
        access(*run.command, X_OK) != 0) {
        complain("%s is no command; a value goes with its option: %s=%s", *run.command,
                 args->argv[args->next - 1], *run.command);
        return false;
    }
    const char *taken = args->value_apart ? args->value : NULL; /* the last word */
    if (!*run.command)
        complain("which command?%s%s%s vramgc run [OPTIONS] [--] COMMAND...; see `vramgc help run`",
                 taken ? " " : "", taken ? taken : "", taken ? " is the value of an option;" : "");
    return *run.command;
}

/* Which allocator goes along, if any. */
static bool choose_allocator(void) {
    const char *existing = getenv("LD_PRELOAD");
    if (run.allocator) {
        if (strcmp(run.allocator, "glibc") == 0 ||
            preload_allocator(run.allocator, run.allocator_path, sizeof run.allocator_path))
            return true;
        complain("--malloc %s: the library is not installed (Debian: %s)", run.allocator,
                 strcmp(run.allocator, "jemalloc") == 0   ? "libjemalloc2"
                 : strcmp(run.allocator, "mimalloc") == 0 ? "libmimalloc2.0"
                                                          : "libtcmalloc-minimal4");
        return false;
    }
    if ((!existing || !*existing) && preload_script_adds_tcmalloc(run.command) &&
        preload_allocator("tcmalloc", run.allocator_path, sizeof run.allocator_path) &&
        run.options.log >= LOG_INFO)
        complain("added %s, as the start script does itself while LD_PRELOAD is empty",
                 run.allocator_path);
    return true;
}

/* The pattern from the working directory, which the program may leave. NULL after a complaint. */
static char *absolute(const char *variable, const char *pattern) {
    char *path = runfiles_absolute(pattern);
    if (!path) {
        complain("the working directory cannot be found: %s", strerror(errno));
    } else if (strlen(path) >= OPTION_TEXT_BYTES) {
        complain("%s: %s, with its folder, is longer than %d bytes; choose a shorter path",
                 variable, pattern, (int)OPTION_TEXT_BYTES - 1);
        free(path);
        path = NULL;
    }
    return path;
}

static bool choose_patterns(void) {
    char out[OPTION_TEXT_BYTES], note[OPTION_TEXT_BYTES + 128];
    state_place_note(state_pattern(run.options.out, out, sizeof out), out, note, sizeof note);
    if (*note)
        complain("%s", note);
    if (*out && !strchr(out, '%') && file_is_special(out)) {
        complain("%s is no plain file; this run leaves no statistics (see --out)", out);
        *out = 0;
    }
    run.pattern = absolute("VRAMGC_OUT", out);
    run.log_pattern = run.pattern ? absolute("VRAMGC_LOG_FILE", run.options.log_file) : NULL;
    if (!run.log_pattern)
        return false;
    if (run.json && !*run.pattern) {
        complain("--json needs a statistics file, and there is none: see --out");
        return false;
    }
    return true;
}

/* A wrong rule in the environment keeps nobody from running, one that was typed does. */
static bool choose_rules(void) {
    bool typed = settings_typed(settings_find("on"));
    char why[256];
    bool fine = alert_commands_read(&run.rules, run.options.on, why, sizeof why);
    if (fine && (run.rules.count == 0 || *run.pattern))
        return true;
    if (fine)
        snprintf(why, sizeof why, "it needs a statistics file, and there is none (see --out)");
    complain("%s: %s; %s%s (see `vramgc help watch`)", typed ? "--on" : "VRAMGC_ON", why,
             typed ? run.command[0] : "there will be no alerts", typed ? " is not started" : "");
    run.rules.count = 0;
    return !typed;
}

static bool prepare_run(void) {
    char error[PATH_MAX + 256];
    settings_read_environment(&run.options);
    if (!preload_library(run.library, sizeof run.library, error, sizeof error)) {
        complain("%s", error);
        return false;
    }
    return choose_patterns() && choose_rules() && (!run.json || outfile_check(run.json, false)) &&
           choose_allocator();
}

static void set_for_program(const char *name, const char *value) {
    setenv(name, value, 1);
    char *shown = run.verbose ? strdup(value) : NULL;
    if (shown) {
        clean_text(shown, strlen(shown) + 1);
        fprintf(stderr, "vramgc: export %s=", name);
        shell_word(stderr, shown);
        fputc('\n', stderr);
    }
    free(shown);
}

static void choose_run_id(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(run.run_id, sizeof run.run_id, "%ld.%lld%03ld", (long)getpid(), (long long)now.tv_sec,
             now.tv_nsec / 1000000);
}

static bool set_run_environment(void) {
    const char *existing = getenv("LD_PRELOAD");
    char *preload = preload_join(run.library, run.allocator_path, existing ? existing : "");
    if (!preload) {
        complain("no memory");
        return false;
    }
    unsetenv("VRAMGC_ON"); /* nobody else shall tell of the same */
    set_for_program("LD_PRELOAD", preload);
    set_for_program("VRAMGC_OUT", run.pattern);
    set_for_program("VRAMGC_RUN_ID", run.run_id);
    if (*run.log_pattern)
        set_for_program("VRAMGC_LOG_FILE", run.log_pattern);
    free(preload);
    return true;
}

static void describe_typed_command(void) {
    struct text text = TEXT_IN(run.command_text);
    struct secrets secrets = {0};
    for (size_t i = 0; run.command[i]; i++) {
        text_add(&text, i > 0 ? " " : "");
        secrets_add(&secrets, &text, run.command[i]);
    }
    clean_text(run.command_text, sizeof run.command_text);
}

/* The errno that keeps files out of the folder, whose name is put into folder; 0: none. */
static int folder_trouble(const char *pattern, char *folder, size_t capacity) {
    struct text text = text_in(folder, capacity);
    const char *slash = strrchr(pattern, '/');
    text_add_n(&text, pattern, (size_t)(slash - pattern));
    if (strchr(folder, '%')) /* its name differs from process to process */
        return 0;
    return access(*folder ? folder : "/", W_OK | X_OK) == 0 ? 0 : errno;
}

/* By itself, or in a script that passes it on as its status, as shells do. */
static bool ended_by(int signal) {
    int status = run.launch.wait_status;
    return WIFSIGNALED(status) ? WTERMSIG(status) == signal : WEXITSTATUS(status) == 128 + signal;
}

/* The command, where it can be typed as it is told. */
static const char *command_in_sentence(void) {
    enum { LONGEST = 60 };
    bool plain = strlen(run.command_text) <= LONGEST;
    for (size_t i = 0; run.command[i]; i++)
        plain =
            plain && *run.command[i] && !strpbrk(run.command[i], " \t\n'\"`$;&|<>*?()[]{}\\!#~");
    return plain ? run.command_text : "COMMAND";
}

/* Nothing to show is said in one line, since the run was meant to use CUDA. */
static void say_nothing_seen(void) {
    char folder[PATH_MAX];
    int trouble = *run.pattern ? folder_trouble(run.pattern, folder, sizeof folder) : 0;
    if (trouble)
        complain("no statistics: %s cannot be written: %s", folder, strerror(trouble));
    else if (!*run.options.out || strcmp(run.options.out, "/dev/null") == 0)
        complain("no statistics: VRAMGC_OUT is %s", *run.options.out ? run.options.out : "empty");
    else if (!*run.pattern)
        return; /* said when the program began */
    else if (run.options.mode == MODE_OFF)
        complain("no statistics: VRAMGC_MODE is off");
    else if (ended_by(SIGKILL))
        complain("SIGKILL ended the program before it used CUDA. It often comes from the kernel, "
                 "for lack of RAM: `dmesg` tells");
    else
        complain("no CUDA use was seen in this run; `vramgc doctor -- %s` looks for the reason",
                 command_in_sentence());
}

static struct records find_run_files(void) {
    return runfiles_find(run.pattern, run.run_id, (uint64_t)run.launch.child,
                         run.launch.wait_status);
}

/* Ctrl-C reaches all processes of the terminal at once, and the one that we wait for may be gone
 * before those that it started: what they still do belongs to the run. One that stays is told as
 * one that runs. */
static struct records find_ended(void) {
    struct records files = find_run_files();
    bool shown = run.json || !run.no_summary;
    if (!run.launch.interrupted || !shown || !runfiles_await_end(&files))
        return files;
    records_free(&files);
    return find_run_files();
}

/* The report then tells what would have helped. A long record takes too long for this place:
 * `vramgc whatif` by hand has time; and so has a test on a busy machine. */
static void ask_whatif(const char *path) {
    int status;
    pid_t child = start_apart((const char *[]){"/proc/self/exe", "whatif", path, NULL});
    uint64_t until_ns =
        clock_ns() + parse_for_test("VRAMGC_TEST_WHATIF_LIMIT", parse_duration, 30 * SECOND_NS);
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        if (clock_ns() > until_ns)
            kill(-child, SIGKILL);
        sleep_ns(20 * MILLISECOND_NS);
    }
}

/* A terminal has room for so many lines; 0: it is none, or does not say. */
static size_t rows_of_terminal(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

/* Where a terminal has not so many rows the verdict stands at the end, too. */
static void write_report(const struct records *files, const struct launch_facts *facts) {
    struct summary_style style = {.only_verdict = run.quiet, .most_rows = 8, .next_commands = true};
    char *page = NULL;
    size_t length = 0, lines = 2, rows = rows_of_terminal(); /* one before it, and the prompt */
    FILE *memory = rows ? open_memstream(&page, &length) : NULL, *out = memory ? memory : stderr;
    fputc('\n', stderr);
    summary_write(out, files->list, files->count, facts, &style);
    if (!memory)
        return;
    fclose(memory);
    for (size_t i = 0; i < length; i++)
        lines += page[i] == '\n';
    fwrite(page, 1, length, stderr);
    free(page);
    style.only_verdict = true;
    if (lines > rows) {
        fputc('\n', stderr);
        summary_write(stderr, files->list, files->count, facts, &style);
    }
}

static void tell_run(void) {
    struct records files = find_ended();
    const struct launch_facts facts = {.run_id = run.run_id,
                                       .command = run.command_text,
                                       .wait_status = run.launch.wait_status,
                                       .interrupted = run.launch.interrupted,
                                       .elapsed_ns = run.launch.elapsed_ns};
    for (size_t i = 0; run.options.record && i < files.count; i++)
        if (ON_ALL_CARDS(files.list[i]->file, ooms))
            ask_whatif(files.list[i]->path);
    struct outfile json;
    if (run.json && outfile_open(&json, run.json, false)) {
        report_fields_write(json.stream, EMIT_JSON, files.list, files.count, &facts);
        outfile_close(&json);
    }
    if (!run.no_summary && files.count == 0)
        say_nothing_seen();
    if (!run.no_summary && files.count > 0)
        write_report(&files, &facts);
    for (size_t i = 0; run.options.snapshot_on_oom && i < files.count; i++)
        export_torch_beside(files.list[i]);
    records_free(&files);
    if (strcmp(run.options.out, "auto") == 0)
        kept_prune(&run.options);
}

static void stop_asked(void) {
    runfiles_stop_asked(run.pattern, run.run_id);
}

static int not_started(void) {
    int error = hint_error(run.command[0], run.launch.exec_error);
    char hint[512];
    hint_not_started(run.command, hint, sizeof hint);
    complain("%s cannot be run: %s%s", run.command[0], strerror(error), hint);
    return error == ENOENT || error == ENOTDIR ? STATUS_MISSING : STATUS_NOT_EXECUTABLE;
}

/* Else nothing would tell a person that it works. */
static void say_on(const char *unproven) {
    if (isatty(STDERR_FILENO) && !run.quiet && !run.no_summary && run.options.mode != MODE_OFF)
        fprintf(stderr, "vramgc: %s%s%s; a report follows at the end\n", prove_first_found(),
                *unproven ? ", but " : "", unproven);
}

static int start_and_tell(void) {
    const char *unproven = prove_first(&run.options);
    if (*unproven)
        set_for_program("VRAMGC_UNPROVEN", unproven);
    say_on(unproven);
    describe_typed_command();
    choose_run_id();
    watch_beside_start(&run.watch, &run.rules, run.options.park, run.pattern, run.run_id);
    if (!set_run_environment())
        return STATUS_OURS;
    if (!launch_run(run.command, &run.launch, stop_asked)) {
        complain("no process can be started: %s", strerror(errno));
        return STATUS_OURS;
    }
    if (run.launch.exec_error)
        return not_started();
    signal(SIGPIPE, SIG_IGN); /* a reader who left must not change how we end */
    watch_beside_last(&run.watch);
    tell_run();
    watch_beside_end(&run.watch);
    fflush(NULL);
    free(run.pattern);
    free(run.log_pattern);
    launch_mirror(&run.launch);
}

static int run_main(struct args *args) {
    return take_command(args) && prepare_run() ? start_and_tell() : STATUS_OURS;
}

static const struct flag flags[] = {
    {"json", 0, "FILE", "write the statistics there as JSON; - is standard output",
     .value = &run.json},
    {"malloc", 0, "jemalloc|tcmalloc|mimalloc|glibc",
     "preload this allocator for host memory. Default: the TCMalloc that webui.sh would preload by "
     "itself, else none. glibc: none",
     .value = &run.allocator},
    {"no-summary", 0, NULL, "no statistics on standard error at the end", .on = &run.no_summary},
    {"quiet", 'q', NULL, "only the verdict at the end", .on = &run.quiet},
    {"verbose", 'v', NULL,
     "say what vramgc sets in COMMAND's environment, and log from level info on",
     .on = &run.verbose, .take = take_verbose},
};

const struct command run_command = {
    "run",
    GROUP_START,
    "[--] COMMAND [ARGUMENT...]",
    "start a web UI, or any COMMAND, with vramgc; at its end, a report",
    "Options end at the first word that is not one, or at --; what follows belongs to COMMAND. "
    "Every setting of `vramgc help settings` is an option, too.\n"
    "The exit status is COMMAND's; when a signal ended it, vramgc ends itself by the same signal, "
    "which a shell shows as 128+N. 127: COMMAND is missing, 126: it cannot be executed, 125: "
    "vramgc itself failed, or an option is wrong.\n"
    "A signal sent to vramgc alone is passed on to COMMAND; one that both get, as by Ctrl-C, is "
    "not. Programs that are set-uid or linked statically cannot be watched.\n",
    FLAGS(flags),
    .takes_settings = true,
    .takes_command = true,
    .wrong_call = STATUS_OURS,
    .main = run_main,
};
