/* child.c: see child.h. */
#include "prove/child.h"
#include "base/nvml.h"
#include "vm/version.h"

#include <dlfcn.h>
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

/* ---- the card: NVML, where there is one, knows who else uses it ---- */

/* The quick soak wants 256 MiB and the rows before it 130 at once; the rest is for what others take
 * meanwhile. An idle desktop has less than OTHERS_MIB; what has more is a program at work. */
enum { LEAST_MIB = 600, OTHERS_SHARE = 4, OTHERS_MIB = 1024, LARGE_PROCESS_MIB = 512 };

/* --- NVML --- */

/* Asked before this process has a context, so that each process listed is another one. Compositors
 * are listed as well; they are small. */
static void look_at_users(const struct nvml *nvml, nvml_card handle, struct prove_card *card) {
    struct nvml_users users;
    struct nvml_user most = {0};
    nvml_users(nvml, handle, &users);
    for (size_t i = 0; i < users.count; i++)
        if (users.list[i].bytes > most.bytes)
            most = users.list[i];
    uint64_t most_mib = most.bytes >> 20;
    if (most.bytes)
        snprintf(card->user, sizeof card->user, "process %lu uses %lu MiB of the card", most.pid,
                 most_mib);
    card->others = most_mib >= LARGE_PROCESS_MIB;
    if (card->others)
        text_copy(card->busy, sizeof card->busy, card->user);
}

/* A desktop without X has no limit for kernels; under Windows there is one, and often no NVML. */
static void look_by_nvml(int device, struct prove_card *card) {
    struct nvml nvml;
    int limited = 0;
    nvml_card handle = nvml_open(&nvml, dlsym) ? nvml_by_bus(&nvml, card->bus) : NULL;
    if (handle)
        look_at_users(&nvml, handle, card);
    cu.cuDeviceGetAttribute(&limited, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, device);
    card->display = nvml_has_display(&nvml, handle) || limited;
}

/* --- the driver --- */

static bool describe_card(int device, struct prove_card *card) {
    CUdevice ordinal;
    CUuuid uuid;
    int version = 0;
    if (cu.cuInit(0) != CUDA_SUCCESS || cu.cuDeviceGet(&ordinal, device) != CUDA_SUCCESS ||
        cu.cuDeviceGetName(card->name, sizeof card->name, ordinal) != CUDA_SUCCESS ||
        cu.cuDeviceGetPCIBusId(card->bus, sizeof card->bus, ordinal) != CUDA_SUCCESS ||
        cu.cuDeviceGetUuid(&uuid, ordinal) != CUDA_SUCCESS ||
        cu.cuDriverGetVersion(&version) != CUDA_SUCCESS)
        return false;
    proof_key(uuid.bytes, version, VM_VERSION, &card->key);
    card->simulated = driver_is_simulated();
    return true;
}

static void look_at_memory(struct prove_card *card) {
    size_t used = card->total_bytes - card->free_bytes;
    size_t least = LEAST_MIB + (card->display ? CARD_SPARE_MIB : 0);
    if (card->free_bytes >> 20 < least) {
        card->full = card->others = true;
        snprintf(card->busy, sizeof card->busy, "%zu MiB of the card are free; %zu are needed",
                 card->free_bytes >> 20, least);
    } else if (!card->busy[0] && used > card->total_bytes / OTHERS_SHARE &&
               used >> 20 > OTHERS_MIB) {
        card->others = true;
        snprintf(card->busy, sizeof card->busy, "%zu of %zu MiB of the card are in use", used >> 20,
                 card->total_bytes >> 20);
    }
}

static bool card_look(int device, struct prove_card *card) {
    if (!describe_card(device, card)) {
        snprintf(card->busy, sizeof card->busy, "the driver does not tell which card it is");
        return false;
    }
    look_by_nvml(device, card);
    CUresult result = driver_open(device);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemGetInfo_v2(&card->free_bytes, &card->total_bytes);
    card->full = result == CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        snprintf(card->busy, sizeof card->busy, "the card cannot be used: %s",
                 driver_error_name(result));
    else
        look_at_memory(card);
    return !card->busy[0];
}

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
    if (outcome == CHECK_PASSED && driver_errors() != errors && !check->alone) {
        text_add(&said, "; the simulated device reported a wrong use");
        outcome = CHECK_FAILED;
    }
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
