/* The way into the driver: one-time set-up, the lock, per-thread flags, and what fork does.
 * As with the vendor's driver a forked child can't use what its parent initialised. */
#include "card_file.h"
#include "capture.h"
#include "memory.h"
#include "queue.h"
#include "simgpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct driver sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

static struct {
    pthread_once_t once;
    atomic_bool forked; /* This process is the child of one that used the device. */
    atomic_bool ended;  /* The process exits. */
    unsigned long refusals;
} state = {.once = PTHREAD_ONCE_INIT};

static _Thread_local struct {
    bool per_thread_default; /* NULL means the per-thread stream: a _ptsz or _ptds form runs. */
    bool in_callback;
} thread;

static void before_fork(void) {
    pthread_mutex_lock(&sim.lock);
}

static void after_fork_parent(void) {
    pthread_mutex_unlock(&sim.lock);
}

static void after_fork_child(void) {
    pthread_mutex_init(&sim.lock, NULL);
    if (sim.initialised)
        atomic_store(&state.forked, true);
}

static void set_up(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&sim.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    config_read(&sim.config);
    clock_begin();
    fail_read();
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* Documented for any further work of the process, so for memory that belongs to no context as well.
 */
static CUresult any_sticky(void) {
    for (struct context *context = context_next(NULL); context != NULL;
         context = context_next(context))
        if (context->alive && context->sticky != CUDA_SUCCESS)
            return context->sticky;
    return CUDA_SUCCESS;
}

static CUresult check(enum need need) {
    if (need == NEED_NOTHING)
        return CUDA_SUCCESS;
    if (!sim.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need == NEED_INIT)
        return CUDA_SUCCESS;
    if (need == NEED_MEMORY)
        return any_sticky();
    struct context *context = context_current();
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return context->sticky;
}

CUresult sim_begin(enum need need) {
    pthread_once(&state.once, set_up);
    if (need != NEED_NOTHING && atomic_load_explicit(&state.forked, memory_order_relaxed))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need != NEED_NOTHING && atomic_load_explicit(&state.ended, memory_order_relaxed))
        return CUDA_ERROR_DEINITIALIZED;
    if (need != NEED_NOTHING && thread.in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    if (need >= NEED_MEMORY && card_file_enter() && sim.config.cheat == CHEAT_PARK_LOSES)
        ((unsigned char *)sim.devices[0].arena)[3 * PAGE_BYTES] ^= 1;
    pthread_mutex_lock(&sim.lock);
    CUresult result = check(need);
    if (result != CUDA_SUCCESS) {
        pthread_mutex_unlock(&sim.lock);
        card_file_leave();
    }
    return result;
}

/* An error after which a context is of no use stays, as any other of that kind. */
CUresult sim_told_to_fail(const char *function, const void *caller) {
    pthread_once(&state.once, set_up);
    CUresult code = fail_code(function, caller);
    if (code == CUDA_SUCCESS)
        return code;
    card_file_enter();
    pthread_mutex_lock(&sim.lock);
    struct context *context = context_current();
    if (code == CUDA_ERROR_ILLEGAL_ADDRESS && context != NULL && context->sticky == CUDA_SUCCESS)
        context->sticky = code;
    sim_log(1, "%s fails (SIMGPU_FAIL)", function);
    return sim_end(function, code);
}

CUresult sim_end(const char *function, CUresult result) {
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        state.refusals++;
    pthread_mutex_unlock(&sim.lock);
    card_file_leave();
    fail_after(function);
    bool failed = result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
    if (sim.config.log_level >= (failed ? 1 : 2))
        sim_log(failed ? 1 : 2, "%s -> %s", function, sim_error_name(result));
    return result;
}

unsigned long simgpu_refusals(void) {
    pthread_mutex_lock(&sim.lock);
    unsigned long refusals = state.refusals;
    pthread_mutex_unlock(&sim.lock);
    return refusals;
}

bool sim_per_thread_default(bool enabled) {
    bool before = thread.per_thread_default;
    thread.per_thread_default = enabled;
    return before;
}

bool sim_default_stream_is_per_thread(void) {
    return thread.per_thread_default;
}

void sim_in_callback(bool inside) {
    thread.in_callback = inside;
}

/* What was registered before cuInit, and destructors, come later and find no driver any more. */
static void end(void) {
    atomic_store(&state.ended, true);
}

static CUresult initialise(void) {
    for (int i = 0; i < sim.config.devices; i++) {
        struct device *device = &sim.devices[i];
        device->ordinal = i;
        CUresult result = device_memory_init(device);
        if (result == CUDA_SUCCESS)
            result = pool_device_init(device);
        if (result != CUDA_SUCCESS)
            return result;
    }
    atexit(end);
    sim.initialised = true;
    sim_log(1, "%d device(s) of %zu MiB", sim.config.devices, sim.config.mem_bytes >> 20);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_NOTHING);
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&state.forked))
        result = CUDA_ERROR_NOT_INITIALIZED;
    else if (sim.config.devices == 0)
        result = CUDA_ERROR_NO_DEVICE;
    else if (!sim.initialised)
        result = initialise();
    END(result);
}

CUresult cuDriverGetVersion(int *version) {
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_NOTHING);
    *version = sim.config.driver_version;
    END(CUDA_SUCCESS);
}
