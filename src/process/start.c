/* start.c: when recording begins and ends. Begins: at the first use of CUDA, never before, so that
 * the many processes of a web UI that do not use it stay silent, make no file and start no thread.
 * Ends: with the process, or in a forked child, where the parent's device does not exist. */
#include "govern/mode.h"
#include "process/start.h"

#include "base/cancel.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/process_stat.h"
#include "base/state_folder.h"
#include "base/text.h"
#include "card/generation.h"
#include "card/reading.h"
#include "cuda/objects.h"
#include "cuda/real.h"
#include "govern/background_thread.h"
#include "govern/peer_programs.h"
#include "govern/python.h"
#include "govern/reclaim.h"
#include "govern/torch.h"
#include "python/python_api.h"
#include "serve/serve.h"
#include "track/callers.h"
#include "track/device.h"
#include "track/process_state.h"
#include "track/recorder.h"
#include "track/alloc.h"
#include "track/block.h"
#include "track/stream.h"
#include "vm/book.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef VRAMGC_VERSION
#define VRAMGC_VERSION "0.1.0"
#endif

static struct {
    struct lock lock;
    struct alloc_conf conf;
    bool conf_applied;
    struct mode_machine machine;
    atomic_bool begun; /* what follows a fork is not a process of its own any more */
    atomic_bool ending;
    void (*next_exit)(int status); /* _exit behind ours; NULL: not known */
} self;
CHILD_OPENS(self.lock);

/* Observe changes nothing. In compact expandable segments are the better partner as well: pages
 * move a quarter as often, and hardly more is reserved than live. */
static void apply_conf(const char *objection) {
    struct alloc_conf *conf = &self.conf;
    bool observe = settings_options()->mode == MODE_OBSERVE;
    alloc_conf_apply(observe ? "keep" : settings_options()->alloc_conf, objection, conf);
    if (observe && !conf->value[0])
        text_copy(conf->why, sizeof conf->why, "left alone: mode observe changes nothing");
}

void start_read_settings(void) {
    LOCKED(&self.lock);
    settings_from_environment();
}

/* Everything of the loader is looked for here, where the program holds no lock of PyTorch's: a hook
 * that waited for the loader might wait for a constructor that waits for PyTorch. */
void start_at_cuda_init(void) {
    if (atomic_load(&recording_state) == RECORDING_INERT)
        return;
    int cancel = cancel_disable();
    real_find_all();
    real_pin_driver();
    python_api();
    atomic_store(&self.begun, true);
    char words[128]; /* before the lock, for it calls the driver */
    const char *objection = machine_objection(words, sizeof words);
    lock_take(&self.lock);
    settings_from_environment();
    bool apply = !self.conf_applied && atomic_load(&recording_state) != RECORDING_INERT;
    self.conf_applied = true;
    if (apply)
        apply_conf(objection);
    lock_give(&self.lock);
    cancel_restore(cancel);
}

/* webui-user.sh sets no arguments but a variable, which A1111, Forge and SD.Next read once begun.
 */
static void describe_arguments(struct vramgc_file *file) {
    const char *of_webui = getenv("COMMANDLINE_ARGS");
    char arguments[sizeof file->command_line];
    struct text text = TEXT_IN(file->command_line);
    secrets_add_all(&text, arguments,
                    file_read_start("/proc/self/cmdline", arguments, sizeof arguments));
    if (!of_webui || !*of_webui)
        return;
    text_add(&text, " (COMMANDLINE_ARGS: ");
    secrets_add_command(&text, of_webui);
    text_add(&text, ")");
}

/* A web UI is started in its own folder, whose name often is the only one that tells which it is.
 */
static void describe_folder(struct vramgc_file *file) {
    if (!getcwd(file->working_folder, sizeof file->working_folder - 1))
        *file->working_folder = 0;
    else
        strcat(file->working_folder, "/");
}

static void describe_machine(struct vramgc_file *file) {
    struct utsname names;
    text_copy(file->host_name, sizeof file->host_name, uname(&names) == 0 ? names.nodename : "");
}

/* Start times are told in ticks of the clock that goes on while the machine sleeps. */
static uint64_t process_age_ns(uint64_t start_ticks) {
    uint64_t tick_ns = SECOND_NS / (uint64_t)sysconf(_SC_CLK_TCK);
    return minus_u64(clock_read_ns(CLOCK_BOOTTIME), start_ticks * tick_ns);
}

static void describe_process(struct vramgc_file *file) {
    memcpy(file->magic, VRAMGC_MAGIC, sizeof file->magic);
    file->format_version = VRAMGC_FORMAT_VERSION;
    file->file_bytes = sizeof *file;
    file->pid = (uint64_t)getpid();
    file->parent_pid = (uint64_t)getppid();
    file->process_start = process_stat(file->pid).start_ticks;
    file->started_unix_ns = clock_read_ns(CLOCK_REALTIME);
    file->started_ns = file->latest_ns = clock_ns();
    file->before_ns = process_age_ns(file->process_start);
    text_copy(file->version, sizeof file->version, VRAMGC_VERSION);
    const char *run = getenv("VRAMGC_RUN_ID");
    text_copy(file->run_id, sizeof file->run_id, run ? run : "");
    describe_arguments(file);
    describe_folder(file);
    describe_machine(file);
    ssize_t n = readlink("/proc/self/exe", file->executable, sizeof file->executable - 1);
    file->executable[n > 0 ? n : 0] = 0;
}

static void describe_choices(struct vramgc_file *file) {
    file->cuda_driver = (uint64_t)self.machine.driver;
    text_copy(file->torch_version, sizeof file->torch_version, self.conf.torch);
    text_copy(file->alloc_conf, sizeof file->alloc_conf, self.conf.value);
    text_copy(file->alloc_conf_why, sizeof file->alloc_conf_why, self.conf.why);
    file->chose_segments = alloc_conf_chose_expandable();
    mode_begin(&self.machine);
    for (int id = 0; id < REAL_COUNT; id++)
        text_copy(file->hooks[id].name, sizeof file->hooks[id].name, real_table[id].symbol);
    file->hook_count = REAL_COUNT;
}

extern const struct locks_of_child __start_locks_of_child[], __stop_locks_of_child[];

static void open_locks(void) {
    for (const struct locks_of_child *list = __start_locks_of_child; list < __stop_locks_of_child;
         list++)
        for (size_t i = 0; i < list->count; i++)
            lock_force_open((struct lock *)((char *)list->first + i * list->step_bytes));
}

/* Also where another thread was just beginning: the file may be there already. */
static void forked_child(void) {
    objects_after_fork();
    moves_forget();
    open_locks();
    if (!atomic_load(&self.begun) ||
        atomic_exchange(&recording_state, RECORDING_INERT) == RECORDING_INERT)
        return;
    objects_freeze();
    log_silence();
    store_abandon();
    recorder_forget();
    python_forget();
    reclaim_forget();
    peers_forget();
    serve_forget();
}

/* At once, for a fork may be under way already when recording begins: it would tell the child
 * nothing; and what standard error is, the program may change. */
__attribute__((constructor)) static void watch_forks(void) {
    log_remember_standard_error();
    pthread_atfork(objects_before_fork, objects_after_fork, forked_child);
}

/* To a person, where the launcher does not tell: without the launcher, and where the place was not
 * chosen. What a program reads is left alone. */
static void tell_where(void) {
    struct vramgc_file *file = store_file();
    if (recording_is_on() && !file->run_id[0] && *store_path() && !getenv("VRAMGC_OUT") &&
        isatty(STDERR_FILENO))
        LOG(LOG_WARN, "statistics: vramgc report %s", store_path());
}

/* Not by a child that has the memory of its parent, as between vfork and exec. */
static void note_end(int status) {
    if (!recording_is_on() || store_file()->pid != (uint64_t)getpid())
        return;
    store_file()->end_status = (int64_t)(status & 0xff) << 8; /* as waitpid() gives it */
    figure_set(&store_file()->latest_ns, clock_ns());
    __atomic_store_n(&store_file()->end, VRAMGC_END_EXIT, __ATOMIC_RELEASE);
    store_copy_out();
}

/* In good order. No CUDA call is made here: the driver may be gone already. */
static void process_ends(int status, void *context) {
    (void)context;
    if (!atomic_exchange(&self.ending, true))
        tell_where();
    background_thread_stop();
    note_end(status);
}

/* In a hurry, as by os._exit: web UIs do so at Ctrl-C, and to be started again. It may come from a
 * signal's handler, or between vfork and exec: nothing is looked up. */
__attribute__((visibility("default"))) _Noreturn void _exit(int status) {
    note_end(status);
    if (self.next_exit)
        self.next_exit(status);
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

static void open_statistics(void) {
    char pattern[OPTION_TEXT_BYTES], note[OPTION_TEXT_BYTES + 128];
    enum state_place place = state_pattern(settings_options()->out, pattern, sizeof pattern);
    store_open(pattern);
    state_place_note(place, store_path(), note, sizeof note);
    if (*note)
        LOG(LOG_WARN, "%s", note);
}

/* True: our thread is there. */
static bool begin_recording(void) {
    struct vramgc_file *file = store_file();
    settings_complain();
    describe_process(file);
    describe_choices(file);
    settings_store();
    open_statistics();
    if (settings_options()->record)
        recorder_open();
    settings_limit();
    peers_begin();
    stack_open((unsigned)settings_options()->backtrace);
    /* Registered now, after the driver and PyTorch came up, so that it runs before they end. */
    on_exit(process_ends, NULL);
    *(void **)&self.next_exit = real_dlsym(RTLD_NEXT, "_exit");
    LOG(LOG_INFO, "recording to %s; allocator setting %s (%s)",
        *store_path() ? store_path() : "no file (VRAMGC_OUT is empty)",
        *file->alloc_conf ? file->alloc_conf : "none", file->alloc_conf_why);
    if (background_thread_start())
        return true;
    LOG(LOG_WARN, "no thread could be started: vramgc reclaims nothing at rest");
    mode_say(true);
    return false;
}

bool start_recording(void) {
    int state = atomic_load_explicit(&recording_state, memory_order_acquire);
    if (LIKELY(state != RECORDING_ASLEEP))
        return state == RECORDING_ON;
    int cancel = cancel_disable();
    struct mode_machine machine = machine_look(); /* no lock is held across a driver call */
    atomic_store(&self.begun, true);              /* there may have been no cuInit to be seen */
    lock_take(&self.lock);
    self.machine = machine;
    settings_from_environment();
    bool started = false;
    if (atomic_load(&recording_state) == RECORDING_ASLEEP) {
        started = begin_recording();
        atomic_store_explicit(&recording_state, RECORDING_ON, memory_order_release);
    }
    lock_give(&self.lock);
    if (started)
        python_await_names();
    cancel_restore(cancel);
    return recording_is_on();
}

bool start_recording_in_context(void) {
    CUcontext context = NULL;
    if (LIKELY(atomic_load_explicit(&recording_state, memory_order_acquire) != RECORDING_ASLEEP))
        return recording_is_on();
    return real_current_context(&context) && context && start_recording();
}

/* ---- a device was reset: that must be dropped from every book ---- */

static void gauge_clear(struct vramgc_gauge *gauge) {
    figure_set(&gauge->current, 0);
}

void reset_device(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    if (!device)
        return;
    alloc_reset(index);
    book_reset(index);
    stream_reset(index);
    block_reset(index);
    capture_reset(index);
    LOCKED(&device->lock);
    heap_clear(device->heap);
    owners_reset(&device->owners);
    device->pool.live_bytes = 0;
    device->pool.blocks = 0;
    __atomic_store_n(&device->pool.used_bytes, 0, __ATOMIC_RELAXED);
    device->pool.of_pytorch = false;
    __atomic_store_n(&device->pool.idle_bytes, 0, __ATOMIC_RELAXED);
    serve_reset(device);
    device_publish(device);
    struct vramgc_device_stats *stats = &device->out->stats;
    gauge_clear(&stats->held_bytes);
    gauge_clear(&stats->other_bytes);
    gauge_clear(&device->step_bytes);
    for (size_t i = 0; i < VRAMGC_MAX_LIBRARIES; i++)
        gauge_clear(&device->out->of_libraries[i]);
    gauge_clear(&stats->pool_bytes);
    gauge_clear(&stats->managed_bytes);
    gauge_clear(&stats->pinned_bytes);
    gauge_clear(&stats->imported_bytes);
    gauge_clear(&stats->graph_bytes);
    gauge_clear(&stats->address_bytes);
    figure_bump(&stats->resets, 1);
    __atomic_store_n(&device->context, NULL, __ATOMIC_RELAXED);
}

/* The runtime releases its contexts when the program ends; what it held until then is the record.
 */
void reset_primary_gone(unsigned index) {
    if (!atomic_load(&self.ending))
        reset_device(index);
}
