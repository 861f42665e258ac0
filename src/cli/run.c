/* run.c: the command `vramgc run`: puts the library in front of a program, waits, and tells what
 * happened. The program must not be able to notice it but by the library. */
#include "cli/cli.h"
#include "show/export_formats.h"
#include "cli/hint.h"
#include "read/kept.h"
#include "cli/launch.h"
#include "read/outfile.h"
#include "cli/preload.h"
#include "read/stats_file.h"
#include "read/runfiles.h"
#include "cli/settings.h"
#include "show/summary.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/secrets.h"
#include "base/state_folder.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLAG_JSON, FLAG_MALLOC, FLAG_NO_SUMMARY, FLAG_QUIET, FLAG_VERBOSE, FLAG_HELP };

const struct flag run_flags[] = {
    [FLAG_JSON] = {"json", 0, "FILE", "write the statistics there as JSON; - is standard output"},
    [FLAG_MALLOC] =
        {"malloc", 0, "jemalloc|tcmalloc|mimalloc|glibc",
         "preload this allocator for host memory. Default: the TCMalloc that webui.sh would "
         "preload by itself, else none. glibc: none"},
    [FLAG_NO_SUMMARY] = {"no-summary", 0, NULL, "no statistics on standard error at the end"},
    [FLAG_QUIET] = {"quiet", 'q', NULL, "only the verdict at the end"},
    [FLAG_VERBOSE] = {"verbose", 'v', NULL,
                      "show the environment that is set, and messages from level info on"},
    [FLAG_HELP] = {"help", 'h', NULL, "this text"},
};
const size_t run_flag_count = ARRAY_LENGTH(run_flags);

struct run {
    struct options options;
    char *const *command;
    const char *json;
    const char *allocator; /* as typed; NULL: not typed */
    bool no_summary, quiet, verbose, help;
    char library[PATH_MAX];
    char allocator_path[PATH_MAX];
    char *pattern;     /* of the statistics files, absolute */
    char *log_pattern; /* of VRAMGC_LOG_FILE, absolute; "": none */
    char run_id[48];
    char command_text[1024];
    struct launch launch;
};

static bool take_allocator(struct run *run, const char *value) {
    static const char *const names[] = {"jemalloc", "tcmalloc", "mimalloc", "glibc"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(value, names[i]) == 0) {
            run->allocator = names[i];
            return true;
        }
    complain("--malloc %s is not one of jemalloc, tcmalloc, mimalloc, glibc", value);
    return false;
}

static bool take_flag(struct run *run, const struct args *args, int index) {
    switch (index) {
    case FLAG_JSON:
        run->json = args->value;
        return true;
    case FLAG_MALLOC:
        return take_allocator(run, args->value);
    case FLAG_NO_SUMMARY:
        run->no_summary = true;
        return true;
    case FLAG_QUIET:
        run->quiet = true;
        return true;
    case FLAG_VERBOSE:
        run->verbose = true;
        if (!getenv("VRAMGC_LOG"))
            setenv("VRAMGC_LOG", "info", 1);
        return true;
    case FLAG_HELP:
        run->help = true;
        return true;
    default:
        return settings_take((size_t)index - run_flag_count, args) != NULL;
    }
}

/* What may follow an option such as --lowvram only after a =. */
static bool is_value(const char *word) {
    return (strcmp(word, "0") == 0 || strcmp(word, "1") == 0) && access(word, X_OK) != 0;
}

static bool read_command_line(struct run *run, int argc, char **argv) {
    struct flag flags[SETTINGS_MAX];
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = flags,
                        .stop_at_operand = true,
                        .command = "run",
                        .next = 1};
    args.flag_count = settings_flags(flags, run_flags, run_flag_count);
    const char *taken = NULL; /* the last word, when an option has it */
    for (int index; (index = args_next(&args)) != ARGS_END;) {
        if (index == ARGS_BAD || !take_flag(run, &args, index))
            return false;
        taken = args.value_apart ? args.value : NULL;
    }
    run->command = argv + args.next;
    if (*run->command && args.next > 1 && !run->help && is_value(*run->command)) {
        complain("%s is no command; a value goes with its option: %s=%s", *run->command,
                 argv[args.next - 1], *run->command);
        return false;
    }
    if (!*run->command && !run->help) {
        complain("which command?%s%s%s vramgc run [OPTIONS] [--] COMMAND...; see `vramgc help run`",
                 taken ? " " : "", taken ? taken : "", taken ? " is the value of an option;" : "");
        return false;
    }
    return true;
}

/* Which allocator goes along, if any. */
static bool choose_allocator(struct run *run) {
    const char *existing = getenv("LD_PRELOAD");
    if (run->allocator) {
        if (strcmp(run->allocator, "glibc") == 0 ||
            preload_allocator(run->allocator, run->allocator_path, sizeof run->allocator_path))
            return true;
        complain("--malloc %s: the library is not installed (Debian: %s)", run->allocator,
                 strcmp(run->allocator, "jemalloc") == 0   ? "libjemalloc2"
                 : strcmp(run->allocator, "mimalloc") == 0 ? "libmimalloc2.0"
                                                           : "libtcmalloc-minimal4");
        return false;
    }
    if ((!existing || !*existing) && preload_script_adds_tcmalloc(run->command) &&
        preload_allocator("tcmalloc", run->allocator_path, sizeof run->allocator_path) &&
        run->options.log >= LOG_INFO)
        complain("added %s, as the start script does itself while LD_PRELOAD is empty",
                 run->allocator_path);
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

static bool choose_patterns(struct run *run) {
    char out[OPTION_TEXT_BYTES], note[OPTION_TEXT_BYTES + 128];
    state_place_note(state_pattern(run->options.out, out, sizeof out), out, note, sizeof note);
    if (*note)
        complain("%s", note);
    if (*out && !strchr(out, '%') && file_is_special(out)) {
        complain("%s is no plain file; this run leaves no statistics (see --out)", out);
        if (run->options.strict)
            return false;
        *out = 0;
    }
    run->pattern = absolute("VRAMGC_OUT", out);
    run->log_pattern = run->pattern ? absolute("VRAMGC_LOG_FILE", run->options.log_file) : NULL;
    if (!run->log_pattern)
        return false;
    if (run->json && !*run->pattern) {
        complain("--json needs a statistics file, and there is none: see --out");
        return false;
    }
    return true;
}

static bool prepare(struct run *run) {
    char error[PATH_MAX + 256];
    if (settings_read(&run->options) > 0 && run->options.strict) {
        complain("nothing is started: VRAMGC_STRICT is set");
        return false;
    }
    if (!preload_library(run->library, sizeof run->library, error, sizeof error)) {
        complain("%s", error);
        return false;
    }
    return choose_patterns(run) && (!run->json || outfile_check(run->json, false)) &&
           choose_allocator(run);
}

static void set_variable(const struct run *run, const char *name, const char *value) {
    setenv(name, value, 1);
    char *shown = run->verbose ? strdup(value) : NULL;
    if (shown) {
        clean_text(shown, strlen(shown) + 1);
        fprintf(stderr, "vramgc: export %s='%s'\n", name, shown);
    }
    free(shown);
}

static bool set_environment(struct run *run) {
    const char *existing = getenv("LD_PRELOAD");
    char *preload = preload_join(run->library, run->allocator_path, existing ? existing : "");
    if (!preload) {
        complain("no memory");
        return false;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(run->run_id, sizeof run->run_id, "%ld.%lld%03ld", (long)getpid(),
             (long long)now.tv_sec, now.tv_nsec / 1000000);
    set_variable(run, "LD_PRELOAD", preload);
    set_variable(run, "VRAMGC_OUT", run->pattern);
    set_variable(run, "VRAMGC_RUN_ID", run->run_id);
    if (*run->log_pattern)
        set_variable(run, "VRAMGC_LOG_FILE", run->log_pattern);
    free(preload);
    return true;
}

static void describe_command(struct run *run) {
    struct text text = TEXT_IN(run->command_text);
    struct secrets secrets = {0};
    for (size_t i = 0; run->command[i]; i++) {
        text_add(&text, i > 0 ? " " : "");
        secrets_add(&secrets, &text, run->command[i]);
    }
    clean_text(run->command_text, sizeof run->command_text);
}

static void write_json(const struct run *run, const struct records *files,
                       const struct launch_facts *facts) {
    struct outfile out;
    if (!outfile_open(&out, run->json, false))
        return;
    report_fields_write(out.stream, EMIT_JSON, files->list, files->count, facts);
    outfile_close(&out);
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

/* Nothing to show is said in one line, since the run was meant to use CUDA. */
static void say_nothing_seen(const struct run *run) {
    char folder[PATH_MAX];
    int trouble = *run->pattern ? folder_trouble(run->pattern, folder, sizeof folder) : 0;
    if (trouble)
        complain("no statistics: %s cannot be written: %s", folder, strerror(trouble));
    else if (!*run->options.out || strcmp(run->options.out, "/dev/null") == 0)
        complain("no statistics: VRAMGC_OUT is %s", *run->options.out ? run->options.out : "empty");
    else if (!*run->pattern)
        return; /* said when the program began */
    else if (run->options.mode == MODE_OFF)
        complain("no statistics: VRAMGC_MODE is off");
    else
        complain("no CUDA use was seen in this run");
}

static void write_summary(const struct run *run, const struct records *files,
                          const struct launch_facts *facts) {
    const struct summary_style style = {
        .only_verdict = run->quiet, .most_rows = 8, .next_commands = true};
    fputc('\n', stderr);
    summary_write(stderr, files->list, files->count, facts, &style);
}

static struct records find_files(const struct run *run) {
    return runfiles_find(run->pattern, run->run_id, (uint64_t)run->launch.child,
                         run->launch.wait_status);
}

/* Ctrl-C reaches all processes of the terminal at once, and the one that we wait for may be gone
 * before those that it started: what they still do belongs to the run. One that stays is told as
 * one that runs. */
static struct records find_ended(const struct run *run) {
    struct records files = find_files(run);
    bool shown = run->json || !run->no_summary;
    if (!run->launch.interrupted || !shown || !runfiles_await_end(&files))
        return files;
    records_free(&files);
    return find_files(run);
}

static void tell(struct run *run) {
    struct records files = find_ended(run);
    const struct launch_facts facts = {.run_id = run->run_id,
                                       .command = run->command_text,
                                       .wait_status = run->launch.wait_status,
                                       .interrupted = run->launch.interrupted,
                                       .elapsed_ns = run->launch.elapsed_ns};
    if (run->json)
        write_json(run, &files, &facts);
    if (run->no_summary)
        ;
    else if (files.count == 0)
        say_nothing_seen(run);
    else
        write_summary(run, &files, &facts);
    for (size_t i = 0; run->options.snapshot_on_oom && i < files.count; i++)
        export_torch_beside(files.list[i]);
    records_free(&files);
    if (strcmp(run->options.out, "auto") == 0)
        kept_prune(&run->options);
}

static int not_started(const struct run *run) {
    int error = run->launch.exec_error;
    char hint[512];
    hint_not_started(run->command, hint, sizeof hint);
    complain("%s cannot be run: %s%s", run->command[0], strerror(error), hint);
    return error == ENOENT || error == ENOTDIR ? STATUS_MISSING : STATUS_NOT_EXECUTABLE;
}

static int run_command(struct run *run) {
    describe_command(run);
    if (!set_environment(run))
        return STATUS_OURS;
    if (!launch_run(run->command, &run->launch)) {
        complain("no process can be started: %s", strerror(errno));
        return STATUS_OURS;
    }
    if (run->launch.exec_error)
        return not_started(run);
    signal(SIGPIPE, SIG_IGN); /* a reader who left must not change how we end */
    tell(run);
    fflush(NULL);
    free(run->pattern);
    free(run->log_pattern);
    launch_mirror(&run->launch);
}

int run_main(int argc, char **argv) {
    static struct run run;
    if (!read_command_line(&run, argc, argv))
        return STATUS_OURS;
    if (run.help)
        return STATUS_HELP;
    if (!prepare(&run))
        return STATUS_OURS;
    return run_command(&run);
}
