/* child.c: see child.h. */
#include "prove/child.h"
#include "prove/pattern.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const struct check check_table[] = {
#define CHECK(name, function, from, alone, asked) {name, asked, check_##function, from, alone},
#include "prove/checks.def"
#undef CHECK
};
const size_t check_count = ARRAY_LENGTH(check_table);

/* ---- children ---- */

/* A card that was asleep takes its time, and so does compiling the kernels: some seconds each. A
 * child that has told all has END_S to end in, while the driver takes back what it had. */
enum { START_S = 60, END_S = 10 };

struct findings *findings_new(void) {
    void *p = mmap(NULL, sizeof(struct findings), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

pid_t child_start(const struct job *job) {
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    job->run(job);
    _exit(0);
}

void child_end(struct result *result, enum outcome outcome) {
    result->outcome = outcome;
    atomic_store(&result->state, STATE_DONE);
}

/* Says why the process gave no answer: it was late, a signal ended it, or it ended by itself. */
static void end_for(struct result *result, bool late, unsigned limit_s, int status) {
    if (late)
        snprintf(result->said, sizeof result->said, "it did not end within %u s", limit_s);
    else if (WIFSIGNALED(status))
        snprintf(result->said, sizeof result->said, "its process was ended by signal %d",
                 WTERMSIG(status));
    else
        snprintf(result->said, sizeof result->said, "its process ended without an answer");
    child_end(result, CHECK_FAILED);
}

/* Waits for a child, or for its row (NULL: none), so long at most; then it is ended. False: it was
 * late. */
static bool await(pid_t child, const struct result *row, unsigned limit_s, int *status) {
    uint64_t end_ns = clock_ns() + limit_s * SECOND_NS;
    while ((!row || atomic_load(&row->state) != STATE_DONE) &&
           waitpid(child, status, WNOHANG) == 0) {
        if (clock_ns() > end_ns) {
            kill(child, SIGKILL);
            waitpid(child, status, 0);
            return false;
        }
        sleep_ns(2 * MILLISECOND_NS);
    }
    return true;
}

bool child_run(const struct job *job, unsigned limit_s, struct result *result) {
    int status = 0;
    uint64_t begin_ns = clock_ns();
    pid_t child = child_start(job);
    bool in_time = child > 0 && await(child, NULL, limit_s, &status);
    result->ns = clock_ns() - begin_ns;
    if (!in_time || !WIFEXITED(status))
        end_for(result, !in_time, limit_s, status);
    return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- the card --- */

/* Where it does not end well, what was asked does not answer. */
static void ask_in_child(const struct job *job, const char *asked) {
    struct result result = {.state = STATE_OPEN};
    if (!child_run(job, START_S, &result))
        snprintf(job->findings->card.busy, sizeof job->findings->card.busy, "%s does not answer",
                 asked);
}

static void count_devices(const struct job *job) {
    cu.cuDriverGetVersion(&job->findings->driver_version);
    CUresult result = cu.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cu.cuDeviceGetCount(&job->findings->devices);
    if (result != CUDA_SUCCESS)
        snprintf(job->findings->card.busy, sizeof job->findings->card.busy,
                 "the driver does not start: %s", driver_error_name(result));
}

int child_count_devices(struct findings *findings) {
    ask_in_child(&(struct job){.findings = findings, .run = count_devices}, "the driver");
    return findings->devices;
}

static void look_in_child(const struct job *job) {
    card_look(job->device, &job->findings->card);
}

bool child_look(int device, struct findings *findings) {
    ask_in_child(&(struct job){.device = device, .findings = findings, .run = look_in_child},
                 "the card");
    return !findings->card.busy[0];
}

/* --- checks --- */

/* Nothing of its neighbours' is left where it begins, nor anything of its own for them. */
static bool has_own_process(size_t index) {
    return index < check_count && check_table[index].alone;
}

static size_t next_of(size_t index) {
    while (index < check_count && check_table[index].from > check_form)
        index++;
    return index;
}

static bool open_for_checks(const struct job *job, struct result *result) {
    struct text said = TEXT_IN(result->said);
    CUresult opened = driver_open(job->device);
    if (opened == CUDA_SUCCESS)
        opened = pattern_open();
    if (opened == CUDA_SUCCESS)
        return true;
    text_format(&said, "the device cannot be opened: %s", driver_error_name(opened));
    child_end(result, CHECK_FAILED);
    return false;
}

static void run_one(const struct check *check, struct result *result) {
    struct text said = TEXT_IN(result->said);
    unsigned long errors = driver_errors();
    uint64_t begin_ns = clock_ns();
    atomic_store(&result->state, STATE_RUNNING);
    enum outcome outcome = check->run(&said);
    if (outcome == CHECK_PASSED && driver_errors() != errors && !check->alone)
        outcome = check_failed(&said, "; the simulated device reported a wrong use");
    result->ns = clock_ns() - begin_ns;
    child_end(result, outcome);
}

/* A fresh process follows whatever may have left something behind. */
static void run_checks(const struct job *job) {
    struct result *results = job->findings->results;
    check_unmap_waits = &job->findings->unmap_waits;
    if (!open_for_checks(job, &results[job->from]))
        return;
    size_t i = job->from;
    do {
        run_one(&check_table[i], &results[i]);
        if (results[i].outcome == CHECK_FAILED || has_own_process(i))
            return;
        i = next_of(i + 1);
    } while (i < check_count && !has_own_process(i));
}

/* The row that a child works on, or would begin with. */
static void await_row(pid_t child, struct findings *findings, size_t index) {
    struct result *result = &findings->results[index];
    int status = 0;
    bool late = !await(child, result, CHECK_LIMIT_S + START_S, &status);
    if (atomic_load(&result->state) != STATE_DONE)
        end_for(result, late, CHECK_LIMIT_S, status);
    findings->failed += result->outcome == CHECK_FAILED;
}

bool child_run_checks(int device, struct findings *findings, child_tell *tell) {
    size_t index = next_of(0);
    const struct result *first = &findings->results[index];
    while (index < check_count && first->outcome != CHECK_FAILED) {
        struct job job = {.device = device, .findings = findings, .from = index, .run = run_checks};
        bool more = true;
        int status;
        pid_t child = child_start(&job);
        while (more && index < check_count) {
            const struct check *check = &check_table[index];
            const struct result *result = &findings->results[index];
            tell(check->name, check->asked, NULL);
            await_row(child, findings, index);
            tell(check->name, check->asked, result);
            more = result->outcome != CHECK_FAILED && !has_own_process(index);
            index = next_of(index + 1);
            more = more && !has_own_process(index);
        }
        await(child, NULL, END_S, &status);
    }
    return first->outcome != CHECK_FAILED;
}
