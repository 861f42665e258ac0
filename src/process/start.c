/* start.c: when recording begins and ends. Begins: at the first use of CUDA, never before, so that
 * the many processes of a web UI that do not use it stay silent, make no file and start no thread.
 * Ends: with the process, or in a forked child, where the parent's device does not exist. */
#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"
#include "govern/alloc_conf.h"
#include "govern/python.h"
#include "track/device.h"
#include "serve/native.h"
#include "serve/expandable.h"
#include "track/record.h"
#include "track/stack.h"
#include "track/stream.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef VRAMGC_VERSION
#define VRAMGC_VERSION "0.1.0"
#endif

atomic_int record_state;

static struct {
    struct lock lock;
    bool settings_read;
    struct options options;
    enum option_origin origins[VRAMGC_MAX_SETTINGS];
    size_t complaints;
    struct alloc_conf conf;
    bool conf_applied;
    int driver_version;
    bool devices_map;
    atomic_bool begun; /* what follows a fork is not a process of its own any more */
    atomic_bool ending;
    _Atomic(CUcontext) primary[VRAMGC_MAX_DEVICES];
} self;

const struct options *record_options(void) {
    return &self.options;
}

struct policy_settings record_policy_settings(void) {
    const struct options *options = &self.options;
    struct policy_settings settings = {
        .mode = options->mode == MODE_OFF       ? POLICY_OFF
                : options->mode == MODE_OBSERVE ? POLICY_OBSERVE
                                                : POLICY_FLUSH,
        .threshold_percent = options->threshold,
        .hysteresis_percent = options->hysteresis,
        .cooldown_ns = options->cooldown,
        .min_gain_bytes = options->min_gain,
        .quiet_ns = options->rest,
        .linger_ns = options->linger,
        .lowvram = options->lowvram,
    };
    return settings;
}

static void complain(const char *sentence, void *context) {
    (void)context;
    LOG(LOG_WARN, "%s", sentence);
}

static void say_complaints(void) {
    log_open((enum option_log)self.options.log, self.options.log_file);
    if (self.complaints && !getenv("VRAMGC_RUN_ID")) /* else the launcher has said it */
        options_read(&self.options, self.origins, complain, NULL);
}

/* Complaints wait until recording begins: this may be a process that only asks for a device. */
static void read_settings(void) {
    if (self.settings_read)
        return;
    self.complaints = options_read(&self.options, self.origins, NULL, NULL);
    self.settings_read = true;
    bool refused = self.options.strict && self.complaints;
    if (self.options.mode == MODE_OFF || refused)
        atomic_store(&record_state, RECORD_INERT);
    if (refused) {
        say_complaints();
        LOG(LOG_ERROR, "nothing is recorded and nothing done, for VRAMGC_STRICT is set");
    }
}

/* Observe changes nothing. In compact expandable segments are the better partner as well: pages
 * move a quarter as often, and hardly more is reserved than live. */
static void apply_conf(bool mappable) {
    struct alloc_conf *conf = &self.conf;
    bool observe = self.options.mode == MODE_OBSERVE;
    alloc_conf_apply(observe ? "keep" : self.options.alloc_conf, mappable, conf);
    if (observe && !conf->value[0])
        text_copy(conf->why, sizeof conf->why, "left alone: mode observe changes nothing");
}

static bool devices_can_map(void) {
    real_cuDeviceGetCount_t get_count = REAL(cuDeviceGetCount);
    real_cuDeviceGetAttribute_t get_attribute = REAL(cuDeviceGetAttribute);
    int count = 0, supported = 0;
    if (!get_count || !get_attribute || get_count(&count) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < count; i++)
        if (get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i) !=
                CUDA_SUCCESS ||
            !supported)
            return false;
    return count > 0;
}

/* Everything of the loader is looked for here, where the program holds no lock of PyTorch's: a hook
 * that waited for the loader might wait for a constructor that waits for PyTorch. */
void record_cuda_begins(void) {
    if (atomic_load(&record_state) == RECORD_INERT)
        return;
    real_find_all();
    atomic_store(&self.begun, true);
    bool mappable = devices_can_map(); /* before the lock: none is held across a driver call */
    lock_take(&self.lock);
    read_settings();
    bool apply = !self.conf_applied && atomic_load(&record_state) != RECORD_INERT;
    self.conf_applied = true;
    if (apply)
        apply_conf(mappable);
    lock_give(&self.lock);
}

static void read_file(const char *path, char *out, size_t capacity) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, capacity - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = 0;
    for (ssize_t i = 0; i + 1 < n; i++)
        if (!out[i])
            out[i] = ' ';
}

/* Field 22 of /proc/self/stat: tells two processes with the same id apart. */
static uint64_t process_start(void) {
    char stat[1024];
    read_file("/proc/self/stat", stat, sizeof stat);
    const char *p = strrchr(stat, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

static void describe_process(struct vramgc_file *file) {
    struct timespec now;
    memcpy(file->magic, VRAMGC_MAGIC, sizeof file->magic);
    file->format_version = VRAMGC_FORMAT_VERSION;
    file->file_bytes = sizeof *file;
    file->pid = (uint64_t)getpid();
    file->parent_pid = (uint64_t)getppid();
    file->process_start = process_start();
    clock_gettime(CLOCK_REALTIME, &now);
    file->started_unix_ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
    file->started_ns = file->latest_ns = clock_ns();
    text_copy(file->version, sizeof file->version, VRAMGC_VERSION);
    const char *run = getenv("VRAMGC_RUN_ID");
    text_copy(file->run_id, sizeof file->run_id, run ? run : "");
    read_file("/proc/self/cmdline", file->command_line, sizeof file->command_line);
    ssize_t n = readlink("/proc/self/exe", file->executable, sizeof file->executable - 1);
    file->executable[n > 0 ? n : 0] = 0;
}

static void describe_choices(struct vramgc_file *file) {
    file->cuda_driver = (uint64_t)self.driver_version;
    text_copy(file->torch_version, sizeof file->torch_version, self.conf.torch);
    text_copy(file->alloc_conf, sizeof file->alloc_conf, self.conf.value);
    text_copy(file->alloc_conf_why, sizeof file->alloc_conf_why, self.conf.why);
    mode_begin(self.driver_version, self.devices_map);
    for (int id = 0; id < REAL_COUNT; id++)
        text_copy(file->hooks[id].name, sizeof file->hooks[id].name, real_table[id].symbol);
    file->hook_count = REAL_COUNT;
}

/* Also where another thread was just beginning: the file may be there already. */
static void forked_child(void) {
    lock_force_open(&self.lock);
    if (!atomic_load(&self.begun) || atomic_exchange(&record_state, RECORD_INERT) == RECORD_INERT)
        return;
    log_silence();
    store_abandon();
    python_forget();
    devices_forget();
    paged_forget();
    memory_unlock();
    vmm_unlock();
    virtual_unlock();
    streams_unlock();
    blocks_unlock();
    mode_unlock();
    capture_unlock();
    stacks_unlock();
}

/* At once, for a fork may be under way already when recording begins: it would tell the child
 * nothing. */
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked_child);
}

static void process_ends(void) {
    atomic_store(&self.ending, true);
    ticker_stop();
}

static void start(void) {
    struct vramgc_file *file = store_file();
    say_complaints();
    describe_process(file);
    describe_choices(file);
    store_settings(&self.options, self.origins);
    store_open(self.options.out);
    stacks_open((unsigned)self.options.backtrace);
    /* Registered now, after the driver and PyTorch came up, so that it runs before they end. */
    atexit(process_ends);
    LOG(LOG_INFO, "recording to %s; allocator setting %s (%s)", store_path(),
        *file->alloc_conf ? file->alloc_conf : "none", file->alloc_conf_why);
    if (!ticker_start()) {
        LOG(LOG_WARN, "no thread could be started: nothing is reclaimed at rest");
        mode_say(true);
    }
}

static int driver_version(void) {
    int version = 0;
    real_cuDriverGetVersion_t get_version = REAL(cuDriverGetVersion);
    if (!get_version || get_version(&version) != CUDA_SUCCESS)
        return 0;
    return version;
}

bool record_ready(void) {
    int state = atomic_load_explicit(&record_state, memory_order_acquire);
    if (LIKELY(state != RECORD_ASLEEP))
        return state == RECORD_ON;
    int version = driver_version(); /* before the lock: none is held across a driver call */
    bool devices_map = devices_can_map();
    atomic_store(&self.begun, true); /* there may have been no cuInit to be seen */
    lock_take(&self.lock);
    self.driver_version = version;
    self.devices_map = devices_map;
    read_settings();
    if (atomic_load(&record_state) == RECORD_ASLEEP) {
        start();
        atomic_store_explicit(&record_state, RECORD_ON, memory_order_release);
    }
    lock_give(&self.lock);
    return record_is_on();
}

bool record_ready_in_context(void) {
    CUcontext context = NULL;
    if (LIKELY(atomic_load_explicit(&record_state, memory_order_acquire) != RECORD_ASLEEP))
        return record_is_on();
    real_cuCtxGetCurrent_t get_current = REAL(cuCtxGetCurrent);
    return get_current && get_current(&context) == CUDA_SUCCESS && context && record_ready();
}

_Static_assert(REAL_COUNT <= VRAMGC_MAX_HOOKS, "the file has room for every line of hooks.def");

void record_call(enum real_id id) {
    figure_add(&store_file()->hooks[id].calls, 1);
}

void record_call_failed(enum real_id id) {
    figure_add(&store_file()->hooks[id].failed, 1);
}

void record_memory_info(uint64_t free_bytes, uint64_t total_bytes) {
    struct device *device = record_is_on() ? device_current() : NULL;
    if (!device)
        return;
    device_note_memory(device, free_bytes, total_bytes);
}

static void gauge_clear(struct vramgc_gauge *gauge) {
    figure_set(&gauge->current, 0);
}

void record_reset(unsigned index) {
    struct device *device = record_is_on() ? device_if_ready(index) : NULL;
    if (!device)
        return;
    memory_reset(index);
    vmm_reset(index);
    virtual_reset(index);
    streams_reset(index);
    blocks_reset(index);
    capture_reset(index);
    lock_take(&device->lock);
    heap_clear(device->heap);
    device->pool_live_bytes = 0;
    device->pool_blocks = 0;
    device->pool_of_pytorch = false;
    __atomic_store_n(&device->pool_idle_bytes, 0, __ATOMIC_RELAXED);
    paged_reset(device);
    device_publish(device);
    struct vramgc_device_stats *stats = &device->out->stats;
    gauge_clear(&stats->held_bytes);
    gauge_clear(&stats->other_bytes);
    gauge_clear(&stats->pool_bytes);
    gauge_clear(&stats->managed_bytes);
    gauge_clear(&stats->pinned_bytes);
    gauge_clear(&stats->imported_bytes);
    gauge_clear(&stats->graph_bytes);
    gauge_clear(&stats->address_bytes);
    figure_bump(&stats->resets, 1);
    __atomic_store_n(&device->context, NULL, __ATOMIC_RELAXED);
    lock_give(&device->lock);
}

void record_primary_context(unsigned index, CUcontext context) {
    if (index < VRAMGC_MAX_DEVICES)
        atomic_store(&self.primary[index], context);
}

CUcontext record_primary(unsigned index) {
    return index < VRAMGC_MAX_DEVICES ? atomic_load(&self.primary[index]) : NULL;
}

bool record_primary_leave(unsigned index) {
    struct device *device = record_is_on() ? device_if_ready(index) : NULL;
    CUcontext primary = device ? atomic_load(&self.primary[index]) : NULL;
    return primary && __atomic_compare_exchange_n(&device->context, &primary, NULL, false,
                                                  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void record_primary_stays(unsigned index) {
    struct device *device = record_is_on() ? device_if_ready(index) : NULL;
    CUcontext none = NULL;
    if (device)
        __atomic_compare_exchange_n(&device->context, &none, atomic_load(&self.primary[index]),
                                    false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The runtime releases its contexts when the program ends; what it held until then is the record.
 */
void record_primary_gone(unsigned index) {
    if (!atomic_load(&self.ending))
        record_reset(index);
}

/* The device's other memory, that of the primary context, stays. */
void record_context_gone(CUcontext context) {
    if (!record_is_on())
        return;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        CUcontext gone = context;
        if (device)
            __atomic_compare_exchange_n(&device->context, &gone, NULL, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED);
    }
    memory_context_gone(context);
}

void record_unaccounted(void) {
    if (record_is_on())
        figure_add(&store_file()->process.unaccounted_calls, 1);
}

/* The program ends in good order. No CUDA call is made here: the driver may be gone already. */
__attribute__((destructor)) static void finish(void) {
    if (!record_is_on() || store_file()->pid != (uint64_t)getpid())
        return;
    ticker_stop();
    store_file()->latest_ns = clock_ns();
    __atomic_store_n(&store_file()->end, VRAMGC_END_EXIT, __ATOMIC_RELEASE);
    store_copy_out();
}
