/* with_torch.c: see with_torch.h. It asserts that mode compact was taken and that pages moved: a
 * soak of something else proves nothing. */
#include "prove/with_torch.h"

#include "vramgc_format.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* tests/gpu counts on two minutes at the most. Three seconds on the simulated device move 60,000
 * pages; fewer than LEAST_MOVED prove nothing. */
enum { PYTHON_LIMIT_S = 115, LEAST_MOVED = 100 };

const char *const python_doors[PYTHON_DOORS] = {"native", "expandable", "async"};

static const char *const settings[PYTHON_DOORS] = {"", "expandable_segments:True",
                                                   "backend:cudaMallocAsync"};

extern const char python_script[];

struct run {
    const struct python *python;
    const struct card *card;
    size_t door;
    char folder[32], record[64], said[64]; /* a folder of ours, and files in it */
};

/* The trial needs these settings, whatever the user has set for his own programs. */
static void set_environment(const struct run *run) {
    setenv("LD_PRELOAD", run->python->preload, 1);
    if (!run->card->simulated)
        setenv("CUDA_VISIBLE_DEVICES", run->card->key.card, 1);
    setenv("PYTORCH_CUDA_ALLOC_CONF", settings[run->door], 1);
    unsetenv("PYTORCH_ALLOC_CONF");
    setenv("VRAMGC_MODE", "compact", 1);
    setenv("VRAMGC_ASYNC", "pages", 1);
    setenv("VRAMGC_ALLOC_CONF", "keep", 1);
    setenv("VRAMGC_OUT", run->record, 1);
    setenv("VRAMGC_LOG", "error", 1); /* the last line that is said is told */
}

static void interpret(const struct job *job) {
    static const char *const seconds[] = {"3", "15", "60"};
    const struct run *run = job->with;
    char spare[16];
    snprintf(spare, sizeof spare, "%zu", check_spare_bytes >> 20);
    int out = open(run->said, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
        _exit(125);
    set_environment(run);
    execlp(run->python->interpreter, run->python->interpreter, "-c", python_script, "--seconds",
           seconds[check_form], "--operations", "200", "--leave-mib", "2048", "--spare-mib", spare,
           (char *)NULL);
    dprintf(STDERR_FILENO, "%s cannot be started\n", run->python->interpreter);
    _exit(127);
}

/* --- what came of it --- */

static void last_line(const char *path, struct text *said) {
    char line[400], last[400] = "it said nothing";
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in))
        if (line[0] != '\n')
            text_copy(last, sizeof last, line);
    if (in)
        fclose(in);
    last[strcspn(last, "\n")] = 0;
    text_add(said, last);
}

/* The library's own record of the process. */
static bool pages_moved(const char *path, struct text *said) {
    static struct vramgc_file file;
    FILE *in = fopen(path, "re");
    bool read = in && fread(&file, sizeof file, 1, in) == 1 &&
                file.format_version == VRAMGC_FORMAT_VERSION &&
                memcmp(file.magic, VRAMGC_MAGIC, sizeof file.magic) == 0;
    if (in)
        fclose(in);
    if (!read) {
        text_add(said, "the library left no record");
        return false;
    }
    file.mode[sizeof file.mode - 1] = file.mode_why[sizeof file.mode_why - 1] = 0;
    uint64_t maps = file.devices[0].stats.page_maps, unmaps = file.devices[0].stats.page_unmaps;
    text_format(said, "PyTorch %.31s, mode %s, %llu pages mapped, %llu unmapped; ",
                file.torch_version, file.mode, (unsigned long long)maps,
                (unsigned long long)unmaps);
    if (strcmp(file.mode, "compact") == 0 && maps >= LEAST_MOVED && unmaps >= LEAST_MOVED)
        return true;
    text_format(said, "%s", file.mode_why);
    return false;
}

static bool make_files(struct run *run) {
    text_copy(run->folder, sizeof run->folder, "/tmp/vramgc-prove.XXXXXX");
    if (!mkdtemp(run->folder))
        return false;
    snprintf(run->record, sizeof run->record, "%s/record", run->folder);
    snprintf(run->said, sizeof run->said, "%s/said", run->folder);
    return true;
}

static void remove_files(const struct run *run) {
    unlink(run->record);
    unlink(run->said);
    rmdir(run->folder);
}

static void run_door(struct run *run, int device, struct findings *findings) {
    struct result *result = &findings->python[run->door];
    struct text said = TEXT_IN(result->said);
    struct job job = {.device = device, .findings = findings, .run = interpret, .with = run};
    if (!make_files(run)) {
        text_add(&said, "no folder can be made in /tmp");
        child_end(result, CHECK_FAILED);
        return;
    }
    uint64_t begin_ns = clock_ns();
    bool fine = child_run(&job, PYTHON_LIMIT_S, result);
    result->ns = clock_ns() - begin_ns;
    bool moved = fine && pages_moved(run->record, &said);
    said.length = strlen(result->said);
    if (!moved) {
        text_add(&said, *result->said ? "; " : "");
        last_line(run->said, &said);
    }
    child_end(result, moved ? CHECK_PASSED : CHECK_FAILED);
    remove_files(run);
}

void python_run(const struct python *python, int device, struct findings *findings,
                child_tell *tell) {
    for (size_t door = 0; python->interpreter && door < PYTHON_DOORS; door++) {
        struct run run = {.python = python, .card = &findings->card, .door = door};
        const struct result *result = &findings->python[door];
        tell(python_doors[door], "the same with your PyTorch", NULL);
        run_door(&run, device, findings);
        findings->failed += result->outcome == CHECK_FAILED;
        tell(python_doors[door], "the same with your PyTorch", result);
    }
}
