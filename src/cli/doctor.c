/* doctor.c: the command `vramgc doctor`: what stands in the way of vramgc on this machine, or for
 * one command. It starts nothing but that command, reads /proc of this user's processes, and
 * repairs nothing. */
#include "base/base.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/doctor_checks.h"
#include "judge/cause_words.h"
#include "judge/sentences.h"
#include "read/derived.h"
#include "read/records.h"
#include "read/running.h"
#include "read/units.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- who uses CUDA without the library, and why ---- */

enum { MOST_TOLD = 64 }; /* more lines are not read */

static bool has_library_in_environment(pid_t pid) {
    char path[64], *entry = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *environment = fopen(path, "re");
    while (environment && !found && getdelim(&entry, &room, 0, environment) > 0)
        found = strncmp(entry, "LD_PRELOAD=", 11) == 0 && strstr(entry, "libvramgc.so");
    free(entry);
    if (environment)
        fclose(environment);
    return found;
}

static void tell_process(pid_t pid, bool below) {
    struct process_stat stat = process_stat((uint64_t)pid);
    const char *why = has_library_in_environment(pid)
                          ? "LD_PRELOAD names it, but the loader did not take it: a set-uid or "
                            "statically linked program"
                      : below ? "LD_PRELOAD was cleared on the way: env -i, sudo, a service or a "
                                "container starts with an environment of its own"
                              : "it was not started by vramgc run, nor with LD_PRELOAD";
    finding(below ? MARK_WRONG : MARK_NOTE, "process", "%d (%s) uses CUDA without the library: %s",
            (int)pid, *stat.name ? stat.name : "?", why);
}

static size_t doctor_processes(pid_t ancestor) {
    static pid_t told[MOST_TOLD];
    static size_t count;
    const uint64_t of = (uint64_t)ancestor;
    DIR *list = opendir("/proc");
    for (struct dirent *entry; list && count < MOST_TOLD && (entry = readdir(list));) {
        pid_t pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;
        bool known = pid == 0;
        for (size_t i = 0; i < count; i++)
            known = known || told[i] == pid;
        if (known || (ancestor && !process_descends((uint64_t)pid, &of, 1)) ||
            !running_is_stranger((uint64_t)pid))
            continue;
        told[count++] = pid;
        tell_process(pid, ancestor != 0);
    }
    if (list)
        closedir(list);
    return count;
}

/* Its version, and in a second line the CUDA that it is made for: of its metadata and of the text
 * of its version.py, so that nothing is loaded. */
static const char question[] =
    "import importlib.metadata as m\n"
    "print(m.version('torch'))\n"
    "import importlib.util as u, pathlib, re\n"
    "t = (pathlib.Path(u.find_spec('torch').origin).parent / 'version.py').read_text()\n"
    "print(re.search(r'^cuda\\b.*= *(.*)', t, re.M)[1].strip('\\'\"'))\n";

static void tell_pytorch(const char *version, const char *cuda, const char *where) {
    if (strcmp(cuda, "None") == 0)
        finding(MARK_WRONG, "PyTorch", "%s, of %s: made without CUDA, it uses no NVIDIA GPU",
                version, where);
    else
        finding(MARK_OK, "PyTorch", "%s%s%s, of %s", version, *cuda ? " for CUDA " : "", cuda,
                where);
}

/* PyTorch as that Python, or else the shell's, finds it; cuda: see doctor_cards. */
static void check_pytorch(const char *named, char *cuda, size_t capacity) {
    const char *where = named ? named : "the python3 that is first in PATH";
    char version[128] = "";
    *cuda = 0;
    setenv("INTERPRETER", named ? named : "python3", 1);
    setenv("QUESTION", question, 1);
    FILE *python = popen("\"$INTERPRETER\" -c \"$QUESTION\" 2>/dev/null", "re");
    unsetenv("INTERPRETER");
    unsetenv("QUESTION");
    if (python && !fgets(version, sizeof version, python))
        *version = 0;
    if (python && *version && !fgets(cuda, (int)capacity, python))
        *cuda = 0;
    if (python)
        pclose(python);
    version[strcspn(version, "\n")] = 0;
    cuda[strcspn(cuda, "\n")] = 0;
    if (*version)
        tell_pytorch(version, cuda, where);
    else
        finding(MARK_NOTE, "PyTorch", "%s has none%s", where,
                named ? "" : "; a web UI's own Python may");
}

/* ---- with a command ---- */

/* COMMAND writes to standard error, so that a file of ours has only findings. */
static void start_under_vramgc(char *const *command, const char *out, const char *mode) {
    size_t count = 0;
    while (command[count])
        count++;
    const char **arguments = calloc(count + 8, sizeof *arguments);
    if (!arguments)
        _exit(STATUS_OURS);
    const char *const own[] = {"vramgc", "run", "--no-summary", "--out", out, "--"};
    memcpy(arguments, own, sizeof own);
    memcpy(arguments + ARRAY_LENGTH(own), command, count * sizeof *command);
    if (mode)
        setenv("VRAMGC_MODE", mode, 1);
    else
        unsetenv("VRAMGC_MODE");
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execv("/proc/self/exe", (char *const *)arguments);
    _exit(STATUS_OURS);
}

static void tell_record(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    uint64_t calls = 0, seen = 0;
    for (size_t i = 0; i < file->hook_count; i++) {
        calls += file->hooks[i].calls;
        seen += file->hooks[i].calls > 0;
    }
    finding(MARK_OK, "seen",
            "process %lu: %lu calls of %lu CUDA functions; PyTorch %s, mode %s: %s", file->pid,
            calls, seen, *file->torch_version ? file->torch_version : "was not seen", file->mode,
            file->mode_why);
    for (size_t i = 0; i < file->device_count; i++)
        if (file->devices[i].stats.reserved_bytes.peak > 0 &&
            file->devices[i].stats.block_allocs == 0)
            finding(MARK_WRONG, "seen",
                    "process %lu: PyTorch's segments were seen, but none of its blocks", file->pid);
    if (ON_ALL_CARDS(file, ooms))
        finding(MARK_NOTE, "memory",
                "process %lu ran out of memory: `vramgc run` with the same command tells why",
                file->pid);
}

/* It could not begin. */
static void tell_context(const struct stats_file *record) {
    for (size_t i = 0; i < record->refusal_count; i++) {
        TEXT_OVER(text, words, 320);
        struct oom oom = oom_of(record, record->refusals[i]);
        struct facts facts;
        if (!oom.of_context)
            continue;
        facts_of_oom(&facts, &oom);
        sentences_say(&text, SAY_WHY, &facts);
        finding(MARK_WRONG, "memory", "no room for a CUDA context on gpu%u. %s",
                oom.refusal->device, words);
        return;
    }
}

/* How many there were. */
static size_t tell_records(const char *folder) {
    char pattern[PATH_MAX + 4];
    snprintf(pattern, sizeof pattern, "%s/%%p", folder);
    setenv("VRAMGC_OUT", pattern, 1);
    struct kept kept = kept_find();
    struct records records = records_load_kept(&kept, kept_newest_run(&kept));
    kept_free(&kept);
    for (size_t i = 0; i < records.count; i++) {
        tell_record(records.list[i]);
        tell_context(records.list[i]);
        unlink(records.list[i]->path);
    }
    size_t count = records.count;
    records_free(&records);
    return count;
}

static void tell_end(int status, bool seen) {
    static const char too_early[] =
        " before it used CUDA: nothing can be said of how vramgc does with it";
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (!seen && (code == 126 || code == 127)) /* as env, nohup and shells have it */
        finding(MARK_WRONG, "command", "exit status %d: it, or what it starts, %s", code,
                code == 126 ? "cannot be run" : "was not found");
    else if (code == 0)
        finding(MARK_OK, "command", "ended with exit status 0");
    else if (code > 0)
        finding(seen ? MARK_NOTE : MARK_WRONG, "command", "%s with exit status %d%s",
                seen ? "ended" : "failed", code, seen ? "" : too_early);
    else
        finding(seen ? MARK_NOTE : MARK_WRONG, "command", "killed by %s%s",
                show_signal(WTERMSIG(status)).text, seen ? "" : too_early);
    if (!seen && status == 0)
        finding(MARK_WRONG, "seen", "vramgc saw no process of COMMAND use CUDA");
}

static void try_command(char *const *command, const char *mode) {
    char folder[PATH_MAX], pattern[PATH_MAX + 4];
    int status = 0;
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vramgc-doctor-XXXXXX",
             temporary && *temporary == '/' ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        finding(MARK_WRONG, "command", "%s cannot be made", folder);
        return;
    }
    snprintf(pattern, sizeof pattern, "%s/%%p", folder);
    printf("---- %s runs; Ctrl-C ends it, not doctor ----\n", text_after_folder(*command));
    fflush(stdout);
    finding_hold();
    void (*before)(int) = signal(SIGINT, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, before);
        start_under_vramgc(command, pattern, mode);
    }
    while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
        doctor_processes(child);
        sleep_ns(100 * MILLISECOND_NS); /* PyTorch alone takes seconds to load */
    }
    signal(SIGINT, before);
    puts("---- what vramgc saw of it ----");
    finding_release();
    bool seen = tell_records(folder) > 0;
    if (child < 0)
        finding(MARK_WRONG, "command", "no process can be started");
    else
        tell_end(status, seen);
    rmdir(folder);
}

static int doctor_main(struct args *args) {
    char *const *command = args->argv + args->next;
    const char *set = getenv("VRAMGC_MODE");
    char cuda[32];
    char *mode = set ? strdup(set) : NULL; /* doctor_cards sets another */
    bool names_python = *command && strncmp(text_after_folder(*command), "python", 6) == 0;
    doctor_host();
    doctor_allocator();
    check_pytorch(names_python ? *command : NULL, cuda, sizeof cuda);
    doctor_cards(cuda);
    if (*command)
        try_command(command, mode);
    else
        doctor_processes(0);
    free(mode);
    if (finding_wrong_count() == 0)
        puts("Nothing stands in the way of vramgc.");
    return finding_wrong_count() > 0 ? STATUS_BAD_INPUT : STATUS_FINE;
}

const struct command doctor_command = {
    "doctor",
    GROUP_START,
    "[-- COMMAND [ARGUMENT...]]",
    "what is wrong or missing on this machine, or for one COMMAND",
    "With COMMAND doctor starts it under vramgc, waits for its end (end a web UI with Ctrl-C), and "
    "says what vramgc saw, and which of its processes used CUDA without vramgc. What COMMAND "
    "writes goes to standard error. Exit status: 1 when something is wrong, else 0.\n",
    .takes_command = true,
    .main = doctor_main,
};
