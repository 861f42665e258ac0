/* background_thread.c: vramgc's own threads. They exist only in a process that uses CUDA. The flush
 * thread looks at the devices a few times a second (less often the longer nothing happens), keeps
 * the timeline, and has memory given back (flush.h). The decay thread gives idle pages and cached
 * handles back, and must wait for nobody but the GPU. */
#include "govern/background_thread.h"

#include "base/log.h"
#include "base/process_stat.h"
#include "base/standards.h"
#include "cuda/capture_mode.h"
#include "govern/decay_thread.h"
#include "govern/flush.h"
#include "govern/mode.h"
#include "govern/own_thread.h"
#include "govern/peer_programs.h"
#include "govern/python.h"
#include "govern/reclaim.h"
#include "policy/policy.h"
#include "host/memory.h"
#include "track/callers.h"
#include "track/stream.h"
#include "track/device.h"
#include "track/event_log.h"
#include "track/free_memory.h"
#include "track/jobs.h"
#include "track/neighbours.h"
#include "track/process_state.h"
#include "track/thread.h"

#include <pthread.h>
#include <unistd.h>

/* The end of a program waits for a look that is under way: a fifth of what docker stop gives it
 * (10 s). */
enum { STOP_PATIENCE_MS = 2000 };

/* When nothing has happened for longer than a job's end takes (track/jobs.h) looks become rare. Ten
 * looks a second cost a program that rests 1.2 ms of a processor, two cost 0.3 ms (measured with
 * 3,000 blocks). */
#define SLOW_AFTER_NS   (2 * SECOND_NS)
#define SLOWEST_STEP_NS (500 * MILLISECOND_NS)

/* Not more often than `vramgc top` shows a new page. */
#define READ_MEMORY_NS SECOND_NS
#define COPY_OUT_NS    SECOND_NS

/* At most with each look. */
#define ALONE_NS SAMPLE_NS

/* Of each device, between two looks. */
struct look {
    uint64_t block_events;
    uint64_t changed_ns; /* when block_events was last seen to change */
    uint64_t turns;      /* of live memory, then */
    bool unmeasured;     /* it has changed since the holes were measured */
    uint64_t measure_ns; /* not before this are holes measured again */
    uint64_t read_ns;    /* when free and total were last asked for */
    uint64_t limits;     /* those of that moment (limit_words) */
};

static struct {
    atomic_bool stopping, looking, decaying; /* the latter two: a thread is at work */
    bool decays;                             /* the decay thread exists */
    struct look looks[VRAMGC_MAX_DEVICES];
    uint64_t changed_ns, copied_ns, alone_ns;
    uint64_t rest_step_ns; /* what flush_host_look() wants */
} self = {.rest_step_ns = UINT64_MAX};

static bool memory_is_stale(const struct device *device, const struct look *look, uint64_t now) {
    uint64_t read_ns = max_u64(look->read_ns, atomic_load(&device->memory.read_ns));
    /* Others take what is to stay free. */
    bool others_matter = limit_is_on();
    return (others_matter || look->changed_ns > read_ns) &&
           now - read_ns >= (others_matter ? READ_MEMORY_NS / 2 : READ_MEMORY_NS) &&
           !device_memory_will_do(device, MEMINFO_KNOWN);
}

/* Changes whenever something happens to the device, a pending block becoming free included. */
static uint64_t block_events(const struct vramgc_device_stats *stats) {
    return figure_get(&stats->block_allocs) + figure_get(&stats->block_frees) +
           figure_get(&stats->driver_calls) + figure_get(&stats->active_bytes.current) +
           figure_get(&stats->pool_bytes.current);
}

/* Fragmentation needs a walk over all blocks, during which none can be handed out: once after a
 * change, and for less than a thousandth of the time. That counts from the walk, not from the look,
 * which may have begun long before: it waits for Python. */
static void measure_if_changed(struct device *device, struct look *look) {
    uint64_t start_ns = clock_ns();
    if (!look->unmeasured || start_ns < look->measure_ns)
        return;
    look->unmeasured = false;
    device_measure_holes(device, true);
    look->measure_ns = start_ns + max_u64(SECOND_NS, 1000 * (clock_ns() - start_ns));
}

/* Again and again, for idle memory may go back meanwhile. Work that begins just now is not in it,
 * nor what a web UI that was told to stop frees before it ends: InvokeAI takes seconds for it.
 */
static void keep_rest(struct device *device, const struct look *look, uint64_t now) {
    bool rests = now - look->changed_ns >= settings_standards()->rest_ns;
    bool stops = store_only_stops(device->out);
    if (rests && !stops && !python_has_ended() &&
        block_events(&device->out->stats) == look->block_events)
        store_rest(device->out);
}

static void keep_point(struct device *device, uint64_t top_bytes) {
    store_sample(device->out, settings_standards()->sample_ns, top_bytes);
    device_list_owners(device, settings_standards()->sample_ns);
}

/* The program's RAM, once for each time that so much came and went on the device. */
static void note_rounds(struct look *look, uint64_t turns) {
    uint64_t bytes = look->turns < turns ? host_memory_own_bytes() : 0;
    while (look->turns < turns) {
        floors_add(&store_file()->host.floors, bytes);
        look->turns++;
    }
}

static void look_at_device(struct device *device, uint64_t now) {
    struct look *look = &self.looks[device_index(device)];
    struct reclaim *reclaim = reclaim_of(device);
    uint64_t events = block_events(&device->out->stats);
    if (events != look->block_events) {
        look->block_events = events;
        look->changed_ns = self.changed_ns = now;
        look->unmeasured = true;
        note_rounds(look, figure_get(&device->out->floors.turns));
        figure_set(&device->out->worked_ns, store_age_ns());
    }
    measure_if_changed(device, look);
    uint64_t top_bytes = growth_take_top(&device->growth);
    jobs_look(device, top_bytes, look->changed_ns, now);
    bool captures = capture_active(); /* nothing may be asked of the driver that could disturb it */
    if (!captures && (memory_is_stale(device, look, now) || atomic_load(&reclaim->wanted) ||
                      look->limits != limit_words())) {
        look->limits = limit_words();
        look->read_ns = now;
        flush_read_memory(device);
    }
    if (!captures && device_engine(device)) {
        vm_spill_decay(device_engine(device));
        device_account_pages(device); /* else the figures wait for the next block event */
        decay_note_used(device);
    }
    device_publish_used(device);
    keep_point(device, top_bytes);
    if (captures)
        return;
    enum soft_oom wanted = (enum soft_oom)atomic_exchange(&reclaim->wanted, SOFT_OOM_SAFE);
    if (wanted)
        LOG(LOG_DEBUG, "gpu%u: no soft out-of-memory: %s", device_index(device),
            soft_oom_name(wanted));
    flush_look(device, look->changed_ns, now);
    keep_rest(device, look, now);
}

static uint64_t step_ns(uint64_t now) {
    const struct standards *standards = settings_standards();
    bool lowvram = settings_options()->lowvram;
    uint64_t step = min_u64(standards->sample_ns, lowvram ? standards->rest_ns / 2 : SECOND_NS);
    uint64_t idle = now - self.changed_ns;
    if (idle > SLOW_AFTER_NS)
        step = max_u64(step, min_u64(idle / 8, SLOWEST_STEP_NS));
    return min_u64(step, self.rest_step_ns);
}

/* Nothing is done once the process ends: the thread that stops us waits for no more. */
static bool may_work(atomic_bool *working) {
    atomic_store(working, true);
    bool may = !atomic_load(&self.stopping);
    atomic_store(working, may);
    return may;
}

/* Python may end our thread where it waits for the GIL; the end of the process must not wait for it
 * then. */
static void thread_ends(void *unused) {
    (void)unused;
    python_thread_ended();
    atomic_store(&self.looking, false);
}

/* When the main thread has ended by pthread_exit, a process ends with the last thread: the C
 * library calls exit there. Threads of ours that stay would keep it alive, and nothing but SIGKILL
 * would end it, for they take no signals. */
static bool only_we_are_left(uint64_t now) {
    if (now - self.changed_ns < ALONE_NS || now - self.alone_ns < ALONE_NS)
        return false; /* the program was at work just now */
    self.alone_ns = now;
    struct process_stat stat = process_stat((uint64_t)getpid());
    return stat.state == 'Z' && stat.threads == 1 + own_threads(); /* the main thread counts */
}

static void *decay_thread(void *unused) {
    capture_mode_relax(); /* for good: our own calls must never end a capture */
    while (!atomic_load(&self.stopping)) {
        unsigned count = wakeup_count(WAKEUP_DECAY);
        decay_sleep(UINT64_MAX);
        if (!may_work(&self.decaying))
            break;
        bool may = recording_is_on() && !parked_now();
        uint64_t step_ns = min_u64(may ? decay_step(clock_ns()) : UINT64_MAX, SLOWEST_STEP_NS);
        atomic_store(&self.decaying, false);
        decay_sleep(clock_ns() + step_ns);
        if (!atomic_load(&self.stopping))
            wakeup_sleep(WAKEUP_DECAY, step_ns, count);
    }
    own_thread_ends();
    return unused;
}

static void start_decay(void) {
    self.decays = own_thread_start(decay_thread);
    for (EACH_DEVICE(device))
        if (!self.decays && device_steps(device))
            vm_keep_no_steps(device_steps(device));
}

static void look_at_devices(uint64_t now) {
    if (settings_policy().mode == POLICY_ACT)
        python_prepare();
    python_name_functions();
    for (EACH_DEVICE(device)) {
        if (!self.decays && device_engine(device))
            start_decay();
        look_at_device(device, now);
    }
    self.rest_step_ns = flush_host_look(now);
}

static void *background_thread(void *unused) {
    capture_mode_relax();
    thread_becomes_ours();
    pthread_cleanup_push(thread_ends, NULL);
    while (!atomic_load(&self.stopping)) {
        real_find_all(); /* what was loaded since: here no thread of the program waits for us */
        real_pin_driver();
        unsigned count = wakeup_count(WAKEUP_LOOK);
        uint64_t now = clock_ns();
        if (!may_work(&self.looking))
            break;
        peers_look_begins();
        if (!parked_now()) /* else it would wait for a thread that stands in the driver */
            look_at_devices(now);
        peers_look_ends(count);
        stack_name();
        neighbours_look();
        mode_say(false);
        oom_log_write(false);
        reclaim_log_write();
        figure_set(&store_file()->latest_ns, now);
        if (now - self.copied_ns >= COPY_OUT_NS) {
            self.copied_ns = now;
            host_note();
            store_copy_out();
        }
        atomic_store(&self.looking, false);
        if (only_we_are_left(now)) { /* the program's exit handlers may be run here */
            atomic_store(&self.stopping, true);
            wakeup(WAKEUP_DECAY);
            own_thread_take_signals();
        }
        if (!atomic_load(&self.stopping))
            wakeup_sleep(WAKEUP_LOOK, step_ns(now), count);
    }
    pthread_cleanup_pop(0);
    return unused;
}

bool background_thread_start(void) {
    self.changed_ns = clock_ns();
    return own_thread_start(background_thread);
}

static bool at_work(void) {
    return atomic_load(&self.looking) || atomic_load(&self.decaying);
}

void background_thread_stop(void) {
    if (!recording_is_on())
        return; /* a forked child, in which there is no such thread */
    bool again = atomic_exchange(&self.stopping, true);
    wakeup(WAKEUP_LOOK);
    wakeup(WAKEUP_DECAY);
    peers_end();
    python_process_ends();
    for (int i = 0; !again && i < STOP_PATIENCE_MS && at_work(); i++)
        sleep_ns(MILLISECOND_NS);
    if (!at_work()) {
        for (EACH_DEVICE(device))
            device_list_owners(device, settings_standards()->sample_ns);
        mode_say(true);
        neighbours_look();
        decay_conclude();
        jobs_conclude();
        oom_log_write(true);
        reclaim_log_write();
    }
}
