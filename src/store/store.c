/* store.c: creating and keeping the statistics file, and what is written there one after another:
 * actions, refusals, marks, jobs, settings, the timeline; see store.h and vramgc_format.h. It must
 * not fail the host: a full disk is found out when the file is made, not by a signal when it is
 * written; and it must not lose an entry without counting it. */
#include "store/store.h"

#include "base/file.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Twenty times as many names as files are kept (VRAMGC_KEEP). */
enum { NAME_TRIES = 1000, PATH_BYTES = 2048 };

static struct vramgc_file lobby; /* where the figures live until the file is open */
_Atomic(struct vramgc_file *) store_current = &lobby;

static struct {
    int copy_to; /* file descriptor when no shared mapping could be had, else 0 */
    struct file_id copy_id;
    char path[PATH_BYTES];
    /* The peaks of a device as they were when a point of its timeline was last looked for. */
    struct peaks {
        uint64_t held, reserved;
        uint64_t looked_ns;
    } seen[VRAMGC_MAX_DEVICES];
} self;

const char *store_path(void) {
    return self.path;
}

/* The statistics of an earlier life of the same process id are never overwritten. Nobody else reads
 * them: they hold the command line. */
static int create_new(const char *pattern) {
    struct text text = TEXT_IN(self.path);
    text_add_pattern(&text, pattern);
    size_t length = text.length;
    if (file_is_special(self.path)) { /* .1 beside a device, a pipe or a folder is nobody's wish */
        errno = EEXIST;
        return -1;
    }
    for (int i = 0; i < NAME_TRIES; i++) {
        text.length = length;
        if (i > 0)
            text_format(&text, ".%d", i);
        int fd = file_open(self.path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static bool allot(int fd, size_t bytes) {
    int error = file_allot(fd, bytes);
    if (error)
        errno = error;
    return error == 0;
}

/* By this name tests/hook/tsan.supp knows it. */
static void move_in(struct vramgc_file *file) {
    memcpy(file, store_file(), sizeof *file);
    file->asking = 0; /* who asks now is counted where it began */
    atomic_store_explicit(&store_current, file, memory_order_release);
}

static bool give_up(int fd) {
    int error = errno;
    bool special = fd < 0 && file_is_special(self.path);
    if (fd >= 0) {
        close(fd);
        unlink(self.path);
    }
    LOG(LOG_WARN, "cannot keep statistics in %s: %s; this run leaves no file", self.path,
        special ? "it is no plain file" : strerrordesc_np(error));
    self.path[0] = 0;
    return false;
}

bool store_open(const char *pattern) {
    if (!*pattern)
        return false;
    int fd = create_new(pattern);
    if (fd < 0 || !allot(fd, sizeof(struct vramgc_file)))
        return give_up(fd);
    struct vramgc_file *file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) {
        self.copy_to = fd;
        self.copy_id = file_identify(fd);
        store_copy_out();
        LOG(LOG_WARN, "%s cannot be mapped: statistics are copied there once a second", self.path);
        return true;
    }
    close(fd);
    move_in(file);
    return true;
}

/* False with errno: not all of it. */
static bool write_whole_file(int fd) {
    const char *from = (const char *)store_file();
    for (size_t done = 0; done < sizeof(struct vramgc_file);) {
        ssize_t n = pwrite(fd, from + done, sizeof(struct vramgc_file) - done, (off_t)done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

void store_copy_out(void) {
    if (self.copy_to > 0 && file_is(self.copy_to, self.copy_id) &&
        file_size_allowed(sizeof(struct vramgc_file)))
        write_whole_file(self.copy_to);
}

bool store_save_as(const char *path) {
    if (!file_size_allowed(sizeof(struct vramgc_file))) {
        errno = EFBIG;
        return false;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool complete = write_whole_file(fd);
    int error = errno;
    complete = close(fd) == 0 && complete;
    if (!complete)
        unlink(path);
    errno = error;
    return complete;
}

/* The mapping itself stays: another thread of the parent cannot exist here, but unmapping would
 * gain nothing, and a stale pointer would then be fatal instead of harmless. */
void store_abandon(void) {
    atomic_store_explicit(&store_current, &lobby, memory_order_release);
    self.copy_to = 0;
    self.path[0] = 0;
}

uint64_t store_age_ns(void) {
    return minus_u64(clock_ns(), figure_get(&store_file()->started_ns));
}

struct vramgc_device *store_device(unsigned index) {
    struct vramgc_file *file = store_file();
    uint32_t count = __atomic_load_n(&file->device_count, __ATOMIC_RELAXED);
    while (count < index + 1 &&
           !__atomic_compare_exchange_n(&file->device_count, &count, index + 1, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    figure_set(&file->devices[index].present, 1);
    return &file->devices[index];
}

void gauge_add(struct vramgc_gauge *gauge, uint64_t bytes) {
    uint64_t value = figure_add(&gauge->current, bytes);
    uint64_t peak = figure_get(&gauge->peak);
    while (value > peak && !__atomic_compare_exchange_n(&gauge->peak, &peak, value, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void gauge_subtract(struct vramgc_gauge *gauge, uint64_t bytes) {
    uint64_t value = figure_get(&gauge->current);
    while (!__atomic_compare_exchange_n(&gauge->current, &value, minus_u64(value, bytes), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* ---- one after another ---- */

RING_BEGINS_RIGHT(vramgc_action);
RING_BEGINS_RIGHT(vramgc_refusal);
RING_BEGINS_RIGHT(vramgc_mark);
RING_BEGINS_RIGHT(vramgc_job);

enum {
    SETTINGS = 0
#define OPTION(type, name, variable, standard, low, high, words, help) +1
#include "options.def"
#undef OPTION
};
_Static_assert(SETTINGS <= VRAMGC_MAX_SETTINGS, "the file has room for every line of options.def");

static uint64_t now_unless(uint64_t time_ns) {
    return time_ns ? time_ns : store_age_ns();
}

uint64_t store_action(const struct vramgc_action *action) {
    struct vramgc_action entry = *action;
    entry.time_ns = now_unless(entry.time_ns);
    return ring_put(&RING(store_file(), actions), &entry);
}

void store_action_again(const struct vramgc_action *action) {
    ring_put_again(&RING(store_file(), actions), action);
}

bool store_action_at(uint64_t index, struct vramgc_action *out) {
    return ring_get(&RING(store_file(), actions), index, out);
}

uint64_t store_refusal(const struct vramgc_refusal *refusal) {
    struct vramgc_refusal entry = *refusal;
    entry.time_ns = now_unless(entry.time_ns);
    return ring_put(&RING(store_file(), refusals), &entry);
}

void store_refusal_again(const struct vramgc_refusal *refusal) {
    ring_put_again(&RING(store_file(), refusals), refusal);
}

void store_mark(const char *label) {
    struct vramgc_mark mark = {.time_ns = now_unless(0)};
    text_copy(mark.label, sizeof mark.label, label);
    ring_put(&RING(store_file(), marks), &mark);
}

void store_job(const struct vramgc_job *job) {
    ring_put(&RING(store_file(), jobs), job);
}

void store_settings(const struct options *options, const enum option_origin *origins) {
    static const char *const names[] = {"default", "environment", "invalid"};
    struct vramgc_file *file = store_file();
    for (size_t i = 0; i < option_count; i++) {
        struct vramgc_setting *setting = &file->settings[i];
        text_copy(setting->name, sizeof setting->name, option_table[i].name);
        option_show(&option_table[i], options, setting->value, sizeof setting->value);
        text_copy(setting->origin, sizeof setting->origin, names[origins[i]]);
    }
    figure_set(&file->setting_count, option_count);
}

/* A point has the most, and the least, of each figure, at whatever moment that was. */
static void raise_sample(struct vramgc_sample *sample, const struct vramgc_sample *seen) {
    figure_set(&sample->held_bytes, max_u64(sample->held_bytes, seen->held_bytes));
    figure_set(&sample->reserved_bytes, max_u64(sample->reserved_bytes, seen->reserved_bytes));
    figure_set(&sample->allocated_bytes, max_u64(sample->allocated_bytes, seen->allocated_bytes));
    figure_set(&sample->held_low_bytes, min_u64(sample->held_low_bytes, seen->held_low_bytes));
    figure_set(&sample->allocated_low_bytes,
               min_u64(sample->allocated_low_bytes, seen->allocated_low_bytes));
    figure_bump(&sample->allocated_ms_sum_kib, seen->allocated_ms_sum_kib);
    figure_bump(&sample->ms, seen->ms);
    if (seen->used_bytes > figure_get(&sample->used_bytes)) {
        figure_set(&sample->used_bytes, seen->used_bytes);
        figure_set(&sample->others_bytes, seen->others_bytes);
    }
}

/* Makes one point of each two. A reader that looks meanwhile sees points out of order at worst. */
static void thin_out(struct vramgc_device *device) {
    for (size_t i = 0; i < VRAMGC_MAX_SAMPLES / 2; i++) {
        device->samples[i] = device->samples[2 * i];
        raise_sample(&device->samples[i], &device->samples[2 * i + 1]);
    }
    figure_set(&device->sample_count, VRAMGC_MAX_SAMPLES / 2);
    figure_set(&device->sample_step_ns, device->sample_step_ns * 2);
}

/* The highest that a figure was since the latest look, known where its peak was reached since. */
static uint64_t reached(const struct vramgc_gauge *gauge, uint64_t *seen_peak) {
    uint64_t peak = figure_get(&gauge->peak), now = figure_get(&gauge->current);
    uint64_t most = peak > *seen_peak ? max_u64(peak, now) : now;
    *seen_peak = peak;
    return most;
}

/* The present state is taken to have been so since the look before. */
static uint64_t ms_since_look(struct peaks *seen) {
    uint64_t now_ns = store_age_ns(), before_ns = seen->looked_ns;
    seen->looked_ns = now_ns;
    return before_ns ? minus_u64(now_ns, before_ns) / MILLISECOND_NS : 0;
}

/* Others than this process are taken to hold at the peak what they hold now. What is live is held,
 * unless it was spilled: live memory that fell since the latest look was held then, too. */
static struct vramgc_sample sample_now(const struct vramgc_device *device,
                                       uint64_t live_top_bytes) {
    const struct vramgc_device_stats *stats = &device->stats;
    struct peaks *seen = &self.seen[device - store_file()->devices];
    uint64_t live_now = figure_get(&stats->live_bytes.current);
    uint64_t held_now = figure_get(&stats->held_bytes.current), ms = ms_since_look(seen);
    uint64_t live = max_u64(live_top_bytes, live_now);
    uint64_t held = reached(&stats->held_bytes, &seen->held);
    if (!figure_get(&stats->spilled_bytes.peak))
        held = max_u64(held, live);
    uint64_t more = minus_u64(held, held_now);
    uint64_t used = figure_get(&stats->used_bytes.current) + more;
    uint64_t total = figure_get(&device->total_bytes);
    return (struct vramgc_sample){
        .time_ns = seen->looked_ns,
        .held_bytes = held,
        .reserved_bytes = reached(&stats->reserved_bytes, &seen->reserved),
        .allocated_bytes = live,
        .used_bytes = total ? min_u64(used, total) : used,
        .others_bytes = figure_get(&stats->others_bytes.current),
        .held_low_bytes = held_now,
        .allocated_low_bytes = live_now,
        .allocated_ms_sum_kib = live_now / KIBIBYTE * ms,
        .ms = ms,
    };
}

/* Up to Python's end. */
static void add_to_averages(struct vramgc_device *device, const struct vramgc_sample *now) {
    struct vramgc_device_stats *stats = &device->stats;
    uint64_t held = minus_u64(now->held_low_bytes, figure_get(&stats->other_bytes.current));
    if (now->allocated_low_bytes < MEBIBYTE || figure_get(&store_file()->python_ended_ns))
        return;
    figure_add(&stats->held_ms_sum_kib, held / KIBIBYTE * now->ms);
    figure_add(&stats->live_ms_sum_kib, now->allocated_ms_sum_kib);
}

void store_sample(struct vramgc_device *device, uint64_t first_step_ns, uint64_t live_top_bytes) {
    struct vramgc_sample sample = sample_now(device, live_top_bytes);
    add_to_averages(device, &sample);
    uint64_t count = device->sample_count;
    figure_set(&device->stats.used_bytes.peak,
               max_u64(figure_get(&device->stats.used_bytes.peak), sample.used_bytes));
    if (!device->sample_step_ns)
        figure_set(&device->sample_step_ns, first_step_ns);
    if (count > 0 && sample.time_ns - device->samples[count - 1].time_ns < device->sample_step_ns) {
        raise_sample(&device->samples[count - 1], &sample);
        return;
    }
    if (count == VRAMGC_MAX_SAMPLES) {
        thin_out(device);
        count = device->sample_count;
    }
    device->samples[count] = sample;
    __atomic_store_n(&device->sample_count, count + 1, __ATOMIC_RELEASE);
}

/* The higher of two; who works is whoever did so later. */
static void raise_who(struct vramgc_who *point, const struct vramgc_who *later) {
    uint64_t time_ns = point->time_ns;
    if (later->live_bytes >= point->live_bytes)
        *point = *later;
    point->time_ns = time_ns;
    point->works = later->works;
}

/* Makes one point of those that lie within a step of twice the length: what was live at a rest is
 * not told of the work before it. */
static void thin_out_who(struct vramgc_device *device) {
    struct vramgc_who *last = device->who;
    figure_set(&device->who_step_ns, device->who_step_ns * 2);
    for (struct vramgc_who *next = last + 1; next < device->who + device->who_count; next++)
        if (next->time_ns - last->time_ns < device->who_step_ns)
            raise_who(last, next);
        else
            *++last = *next;
    figure_set(&device->who_count, (uint64_t)(last + 1 - device->who));
}

bool store_who(struct vramgc_device *device, uint64_t first_step_ns,
               const struct vramgc_who *point) {
    uint64_t count = device->who_count;
    if (!device->who_step_ns)
        figure_set(&device->who_step_ns, first_step_ns);
    if (count > 0 && point->time_ns - device->who[count - 1].time_ns < device->who_step_ns) {
        raise_who(&device->who[count - 1], point);
        return false;
    }
    for (; count == VRAMGC_MAX_WHO; count = device->who_count)
        thin_out_who(device);
    device->who[count] = *point;
    __atomic_store_n(&device->who_count, count + 1, __ATOMIC_RELEASE);
    return true;
}

static void keep_figures(struct vramgc_device *device, bool of_end) {
    struct vramgc_rest *rest = &device->rest;
    figures_copy(&rest->stats, &device->stats, sizeof rest->stats);
    figures_copy(rest->of_libraries, device->of_libraries, sizeof rest->of_libraries);
    figure_set(&rest->of_end, of_end);
    figure_set(&rest->time_ns, max_u64(store_age_ns(), 1));
}

void store_rest(struct vramgc_device *device) {
    keep_figures(device, false);
}

static bool has_worked_since_rest(const struct vramgc_device *device) {
    return device->rest.stats.block_allocs != device->stats.block_allocs;
}

bool store_only_stops(const struct vramgc_device *device) {
    return __atomic_load_n(&store_file()->stop_asked, __ATOMIC_RELAXED) &&
           !has_worked_since_rest(device);
}

void store_python_ends(void) {
    struct vramgc_file *file = store_file();
    figure_set(&file->python_ended_ns, max_u64(store_age_ns(), 1));
    for (size_t i = 0; i < file->device_count; i++)
        if (has_worked_since_rest(&file->devices[i]))
            keep_figures(&file->devices[i], true);
}
