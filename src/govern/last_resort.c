/* last_resort.c: see last_resort.h. It must not wait for the GPU but where that can give the caller
 * memory, nor for our own thread where that waits for the caller. */
#include "govern/last_resort.h"

#include "base/cancel.h"
#include "base/peer_file.h"
#include "govern/decay_thread.h"
#include "govern/peer_programs.h"
#include "govern/python.h"
#include "govern/reclaim.h"
#include "govern/torch.h"
#include "govern/trim.h"
#include "govern/own_thread.h"
#include "track/stream.h"
#include "track/free_memory.h"
#include "track/callers.h"
#include "track/oom.h"
#include "track/process_state.h"
#include "track/device.h"
#include "track/thread.h"

static struct { bool (*_Atomic weights)(uint64_t bytes); } self;

void last_resort_weights(bool (*give)(uint64_t bytes)) {
    atomic_store(&self.weights, give);
}

/* How much a rung gave. After SOME the next one is climbed before the driver is asked again. */
enum given { NOTHING, SOME, ENOUGH };

/* --- the rungs --- */

static uint64_t own_idle(struct device *device, uint64_t bytes) {
    struct vm *vm = device_pages(device), *steps = device_steps(device);
    uint64_t given = vm      ? decay_after_oom(device, vm, bytes)
                     : steps ? vm_reclaim(steps, bytes, VM_ASK_NOT)
                             : 0;
    if (steps)
        device_account_pages(device);
    return given;
}

/* Addresses are the process's: those that another GPU's memory keeps will do. */
static enum given give_own_idle(const struct request *request) {
    uint64_t given = own_idle(request->device, request->bytes);
    for (EACH_DEVICE(other))
        if (request->what == REFUSED_ADDRESSES && other != request->device)
            given += own_idle(other, request->bytes);
    return given >= request->bytes ? ENOUGH : given ? SOME : NOTHING;
}

static enum given trim_pool(const struct request *request) {
    return trim_after_oom(request->device, request->bytes) ? ENOUGH : NOTHING;
}

/* A thread of another library waits until our own thread has had PyTorch empty its cache, or has
 * seen that it cannot: no longer than a peer is waited for, whoever holds the allocator's lock. */
static void await_flush(struct device *device, struct reclaim *reclaim) {
    uint64_t start_ns = clock_ns();
    uint64_t end_ns = start_ns + PEER_PATIENCE_NS;
    int cancel = cancel_disable();
    while (atomic_load(&reclaim->asking_library) && clock_ns() < end_ns)
        sleep_ns(MILLISECOND_NS);
    cancel_restore(cancel);
    figure_add(&device->out->stats.flush_waits, 1);
    figure_add(&device->out->stats.flush_wait_ns, clock_ns() - start_ns);
}

/* Not inside PyTorch's allocator, which has just asked about the stream. While this thread has the
 * GIL, which ours needs, the cache is emptied right after: the program may ask once more. */
static enum given flush_pytorch(const struct request *request) {
    struct device *device = request->device;
    struct reclaim *reclaim = reclaim_of(device);
    uint64_t idle_bytes = device_releasable_bytes(device);
    uint64_t before_bytes = figure_get(&device->out->stats.reclaimed_bytes);
    if (settings_policy().mode != POLICY_ACT || device_pages(device) || capture_active() ||
        thread_stream()->asked || !trim_would_do(device, idle_bytes, request->bytes))
        return NOTHING;
    atomic_store(&reclaim->asking_library, 1 + library_calling());
    wakeup(WAKEUP_LOOK);
    if (!python_is_held_here() && !atomic_load(&reclaim->waited_in_vain))
        await_flush(device, reclaim);
    atomic_store(&reclaim->waited_in_vain, atomic_load(&reclaim->asking_library) > 0);
    return figure_get(&device->out->stats.reclaimed_bytes) > before_bytes ? SOME : NOTHING;
}

static enum given ask_peers(const struct request *request) {
    return peers_after_oom(request->device, request->bytes) ? ENOUGH : NOTHING;
}

static enum given ask_aimdo(const struct request *request) {
    bool (*weights)(uint64_t) = torch_has_aimdo() ? atomic_load(&self.weights) : NULL;
    return weights && weights(request->bytes) ? ENOUGH : NOTHING;
}

/* --- the ladder --- */

enum {
    CALL = 1 << REFUSED_CALL,
    SEGMENT = 1 << REFUSED_SEGMENT,
    HANDLE = 1 << REFUSED_HANDLE,
    PAGES = 1 << REFUSED_PAGES,
    ADDRESSES = 1 << REFUSED_ADDRESSES,
};

/* For which requests: before PyTorch retries one, and where it does not. */
static const struct rung {
    enum given (*give)(const struct request *request);
    unsigned before_retry, at_last;
} rungs[] = {
    {give_own_idle, SEGMENT | HANDLE, CALL | SEGMENT | HANDLE | ADDRESSES},
    {trim_pool, SEGMENT | HANDLE, CALL | SEGMENT | HANDLE | ADDRESSES | PAGES},
    {flush_pytorch, 0, CALL},
    {ask_peers, 0, CALL | SEGMENT | HANDLE | PAGES},
    {ask_aimdo, HANDLE | PAGES, HANDLE | PAGES},
};

struct request last_resort_for(enum refused what, uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    bool of_pytorch = what == REFUSED_SEGMENT || what == REFUSED_HANDLE;
    bool retries = device && of_pytorch && !oom_is_open() && !capture_active() &&
                   device_releasable_bytes(device) > 0;
    return (struct request){
        .device = device, .bytes = bytes, .what = what, .pytorch_retries = retries};
}

bool last_resort(struct request *request) {
    enum given given = NOTHING;
    while (request->device && given != ENOUGH && request->next < ARRAY_LENGTH(rungs)) {
        const struct rung *rung = &rungs[request->next++];
        unsigned whom = request->pytorch_retries ? rung->before_retry : rung->at_last;
        enum given now = whom >> request->what & 1 ? rung->give(request) : NOTHING;
        given = now > given ? now : given;
    }
    return given != NOTHING;
}
