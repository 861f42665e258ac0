/* child.c: see child.h. */
#include "prove/child.h"

#include "prove/pattern.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A card that was asleep takes its time, and so does compiling the kernels: some seconds each. A
 * child that has told all has END_S to end in, while the driver takes back what it had. */
enum { START_S = 60, END_S = 10, COSTS_S = 110 };

struct findings *findings_new(void) {
    void *p = mmap(NULL, sizeof(struct findings), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* It ends with its parent, whatever ends that. */
static pid_t start(const struct job *job) {
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

/* Waits for a child, so long at most; then it is ended. Whether it ended by itself. */
static bool await(pid_t child, unsigned limit_s, int *status) {
    uint64_t end_ns = clock_ns() + limit_s * SECOND_NS;
    while (waitpid(child, status, WNOHANG) == 0) {
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
    pid_t child = start(job);
    bool in_time = child > 0 && await(child, limit_s, &status);
    if (!in_time || !WIFEXITED(status))
        end_for(result, !in_time, limit_s, status);
    return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* --- the card --- */

/* Where it does not end well, what was asked does not answer. */
static void ask(const struct job *job, const char *asked) {
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
    ask(&(struct job){.findings = findings, .run = count_devices}, "the driver");
    return findings->devices;
}

static void look(const struct job *job) {
    card_look(job->device, &job->findings->card);
}

bool child_look(int device, struct findings *findings) {
    ask(&(struct job){.device = device, .findings = findings, .run = look}, "the card");
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

static bool open_device(const struct job *job, struct result *result) {
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
    if (!open_device(job, &results[job->from]))
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
    uint64_t end_ns = clock_ns() + (CHECK_LIMIT_S + START_S) * SECOND_NS;
    int status = 0;
    bool gone = false, late = false;
    while (atomic_load(&result->state) != STATE_DONE && !gone && !late) {
        gone = waitpid(child, &status, WNOHANG) != 0;
        late = clock_ns() > end_ns;
        if (!gone && !late)
            sleep_ns(2 * MILLISECOND_NS);
    }
    if (late) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
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
        pid_t child = start(&job);
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
        await(child, END_S, &status);
    }
    return first->outcome != CHECK_FAILED;
}

/* --- costs --- */

static void measure(const struct job *job) {
    /* Ten seconds for all of the quick form; 200 are two above the 99th percentile. */
    static const size_t samples[] = {[FORM_QUICK] = 5, [FORM_USUAL] = 40, [FORM_FULL] = 200};
    struct result *result = &job->findings->costs_result;
    struct text said = TEXT_IN(result->said);
    if (!open_device(job, result))
        return;
    CUresult measured = costs_measure(samples[check_form], &job->findings->costs);
    if (measured != CUDA_SUCCESS)
        text_format(&said, "a call answered %s", driver_error_name(measured));
    child_end(result, measured == CUDA_SUCCESS ? CHECK_PASSED : CHECK_FAILED);
}

void child_run_costs(int device, struct findings *findings) {
    struct job job = {.device = device, .findings = findings, .run = measure};
    struct result *result = &findings->costs_result;
    uint64_t begin_ns = clock_ns();
    child_run(&job, COSTS_S, result);
    if (atomic_load(&result->state) != STATE_DONE)
        end_for(result, false, COSTS_S, 0);
    if (result->outcome == CHECK_FAILED)
        result->outcome = CHECK_SKIPPED;
    result->ns = clock_ns() - begin_ns;
}
