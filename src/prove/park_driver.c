/* park_driver.c: see park_driver.h. Parking itself must make no context: that would take memory of
 * the card. For its trial a child has memory of each kind that PyTorch's settings make, and a
 * graph; another one, that has no context, parks it again and again. A driver may end either. */
#include "prove/park_driver.h"
#include "cuda/cuda_api.h"
#include "prove/check.h"
#include "vm/version.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if CUDA_VERSION < 12080
#error "vramgc park needs the headers of CUDA 12.8 or newer"
#endif

/* NULL: it worked. */
static const char *error_of(CUresult result) {
    return result == CUDA_SUCCESS ? NULL : driver_error_name(result);
}

const char *park_driver_open(void) {
    const char *missing = driver_load();
    if (!cu.cuInit)
        return missing;
    if (missing || !cu.cuCheckpointProcessGetState || !cu.cuCheckpointProcessLock ||
        !cu.cuCheckpointProcessCheckpoint || !cu.cuCheckpointProcessRestore ||
        !cu.cuCheckpointProcessUnlock)
        return "the driver cannot park: that takes 570 or a newer one";
    return error_of(cu.cuInit(0));
}

const char *park_objection(enum park_proof proof) {
    static const char *const words[] = {
        [PARK_UNTRIED] = "this driver has not been tried: `vramgc prove` does, a minute",
        [PARK_REFUTED] = "`vramgc prove` found that this driver does not park",
    };
    return proof == PARK_PROVEN ? NULL : words[proof];
}

static enum park_proof proof_of(CUdevice device, int version) {
    struct proof_key key;
    CUuuid uuid;
    if (cu.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS)
        return PARK_UNTRIED;
    proof_key(uuid.bytes, version, VM_VERSION, &key);
    return proof_look(&key).park;
}

enum park_proof park_proof(void) {
    enum park_proof worst = PARK_PROVEN;
    int count = 0, version = 0;
    if (cu.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
        cu.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return PARK_UNTRIED;
    for (int i = 0; i < count; i++) {
        CUdevice device = 0;
        cu.cuDeviceGet(&device, i);
        enum park_proof one = proof_of(device, version);
        worst = one > worst ? one : worst;
    }
    return worst;
}

enum park_state park_state_of(uint64_t pid) {
    CUprocessState state = CU_PROCESS_STATE_RUNNING;
    CUresult result = cu.cuCheckpointProcessGetState((int)pid, &state);
    return result == CUDA_SUCCESS ? (enum park_state)state : PARK_UNKNOWN;
}

const char *park_lock(uint64_t pid, unsigned timeout_ms) {
    CUcheckpointLockArgs arguments = {.timeoutMs = timeout_ms};
    return error_of(cu.cuCheckpointProcessLock((int)pid, &arguments));
}

const char *park_checkpoint(uint64_t pid) {
    CUcheckpointCheckpointArgs arguments = {0};
    return error_of(cu.cuCheckpointProcessCheckpoint((int)pid, &arguments));
}

const char *park_restore(uint64_t pid) {
    CUcheckpointRestoreArgs arguments = {0};
    return error_of(cu.cuCheckpointProcessRestore((int)pid, &arguments));
}

const char *park_unlock(uint64_t pid) {
    CUcheckpointUnlockArgs arguments = {0};
    return error_of(cu.cuCheckpointProcessUnlock((int)pid, &arguments));
}

/* ---- the trial ---- */

/* LIMIT_S: a driver's first call was seen to take 2.7 s on a server, and a lock that never ended.
 */
enum { CYCLES = 10, LIMIT_S = 60, LOCK_MS = 10000 };
enum { NATIVE, EXPANDABLE, POOL, BLOCKS };

static const size_t block_bytes = 32 * MEBIBYTE;

struct trial {
    _Atomic unsigned asked, answered; /* how often the contents were looked at */
    _Atomic bool failed;
    char said[SAID_BYTES];
};

static struct {
    CUdeviceptr blocks[BLOCKS];
    CUstream stream;
    CUgraphExec graph;
} self;

/* --- the one that is parked --- */

/* As PyTorch makes them: to be shared with another process. */
static CUresult make_expandable(CUdeviceptr *at) {
    CUmemAllocationProp properties = place_properties();
    CUmemAccessDesc access = place_access();
    CUmemGenericAllocationHandle handle;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    TRY(cu.cuMemAddressReserve(at, block_bytes, 0, 0, 0));
    TRY(cu.cuMemCreate(&handle, block_bytes, &properties, 0));
    TRY(cu.cuMemMap(*at, block_bytes, 0, handle, 0));
    return cu.cuMemSetAccess(*at, block_bytes, &access, 1);
}

static CUresult make_graph(void) {
    CUgraph graph;
    TRY(cu.cuStreamBeginCapture_v2(self.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    TRY(pattern_write(self.stream, self.blocks[NATIVE], block_bytes, CYCLES));
    TRY(pattern_check(self.stream, self.blocks[NATIVE], block_bytes, CYCLES));
    TRY(cu.cuStreamEndCapture(self.stream, &graph));
    return cu.cuGraphInstantiateWithFlags(&self.graph, graph, 0);
}

static CUresult make_all(int device) {
    TRY(driver_open(device));
    TRY(pattern_open());
    TRY(cu.cuStreamCreate(&self.stream, CU_STREAM_NON_BLOCKING));
    TRY(cu.cuMemAlloc_v2(&self.blocks[NATIVE], block_bytes));
    TRY(make_expandable(&self.blocks[EXPANDABLE]));
    TRY(cu.cuMemAllocAsync(&self.blocks[POOL], block_bytes, self.stream));
    return make_graph();
}

/* Before each cycle the contents are others. */
static CUresult look_at_blocks(unsigned cycle) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (cycle > 0)
            TRY(pattern_check(self.stream, self.blocks[i], block_bytes, cycle * BLOCKS + i));
        if (cycle > 0 && i == NATIVE)
            TRY(cu.cuGraphLaunch(self.graph, self.stream));
        TRY(pattern_write(self.stream, self.blocks[i], block_bytes, (cycle + 1) * BLOCKS + i));
    }
    return CUDA_SUCCESS;
}

static _Noreturn void be_parked(int device, struct trial *trial) {
    struct text said = TEXT_IN(trial->said);
    CUresult result = make_all(device);
    for (unsigned cycle = 0;; cycle++) {
        while (atomic_load(&trial->asked) == cycle)
            sleep_ns(MILLISECOND_NS);
        if (result == CUDA_SUCCESS)
            result = look_at_blocks(cycle);
        if (result != CUDA_SUCCESS)
            text_format(&said, "a call answered %s; ", driver_error_name(result));
        atomic_store(&trial->failed, result != CUDA_SUCCESS || check_patterns(&said));
        atomic_store(&trial->answered, cycle + 1);
    }
}

/* --- the one that parks --- */

static bool contents_are_right(struct trial *trial, pid_t child, struct text *said) {
    unsigned asked = atomic_fetch_add(&trial->asked, 1) + 1;
    while (atomic_load(&trial->answered) != asked) {
        if (waitpid(child, NULL, WNOHANG) == child) {
            text_add(said, "the parked process was ended");
            return false;
        }
        sleep_ns(MILLISECOND_NS);
    }
    text_add(said, trial->said);
    return !atomic_load(&trial->failed);
}

/* A lack of room or time is no such answer. */
static bool is_not_offered(const char *error) {
    return error && (strcmp(error, "CUDA_ERROR_NOT_SUPPORTED") == 0 ||
                     strcmp(error, "CUDA_ERROR_INVALID_VALUE") == 0);
}

static enum outcome park_once(pid_t child, uint64_t ns[2], struct text *said) {
    uint64_t pid = (uint64_t)child, start_ns = clock_ns();
    const char *what = "lock", *error = park_lock(pid, LOCK_MS);
    if (!error)
        what = "checkpoint", error = park_checkpoint(pid);
    bool stayed = is_not_offered(error);
    uint64_t out_ns = clock_ns();
    if (!error)
        what = "restore", error = park_restore(pid);
    if (!error)
        what = "unlock", error = park_unlock(pid);
    ns[0] += out_ns - start_ns;
    ns[1] += clock_ns() - out_ns;
    if (error)
        text_format(said, "%s: %s", what, error);
    return stayed ? CHECK_NOT_OFFERED : error ? CHECK_FAILED : CHECK_PASSED;
}

static enum outcome park_often(pid_t child, struct trial *trial, struct text *said) {
    uint64_t ns[2] = {0};
    for (unsigned i = 0; i < CYCLES; i++) {
        if (!contents_are_right(trial, child, said))
            return CHECK_FAILED;
        enum outcome outcome = park_once(child, ns, said);
        if (outcome != CHECK_PASSED)
            return outcome == CHECK_NOT_OFFERED && i > 0 ? CHECK_FAILED : outcome;
    }
    if (!contents_are_right(trial, child, said))
        return CHECK_FAILED;
    text_format(said, "%d times %zu MiB: out %.1f ms, back %.1f ms each", CYCLES,
                BLOCKS * block_bytes >> 20, (double)ns[0] / (double)CYCLES / 1e6,
                (double)ns[1] / (double)CYCLES / 1e6);
    return CHECK_PASSED;
}

static void try_it(const struct job *job) {
    struct result *result = &job->findings->park;
    struct trial *trial = job->with;
    struct text said = TEXT_IN(result->said);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_parked(job->device, trial);
    }
    const char *objection = child > 0 ? park_driver_open() : "no process can be made";
    enum outcome outcome = CHECK_SKIPPED;
    if (!objection && cu.cuMemAllocAsync && cu.cuGraphInstantiateWithFlags)
        outcome = park_often(child, trial, &said);
    else
        text_add(&said, objection ? objection : "the driver has no cuMemAllocAsync");
    child_end(result, outcome);
    kill(child, SIGKILL);
}

void park_trial_run(int device, struct findings *findings, child_tell *tell) {
    static const char asked[] = "a process leaves the card and comes back as it was";
    void *trial =
        mmap(NULL, sizeof(struct trial), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct job job = {.device = device, .findings = findings, .run = try_it, .with = trial};
    tell("park", asked, NULL);
    if (trial != MAP_FAILED)
        child_run(&job, LIMIT_S, &findings->park);
    if (atomic_load(&findings->park.state) != STATE_DONE)
        child_end(&findings->park, CHECK_FAILED);
    tell("park", asked, &findings->park);
}
