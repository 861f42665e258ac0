/* rings.c: actions, refusals, marks, jobs, settings and the timeline in the statistics file; see
 * store.h and vramgc_format.h. It must not lose an entry without counting it. */
#include "base/ring.h"
#include "base/text.h"
#include "store/store.h"

/* The peaks of a device as they were when a point of its timeline was last looked for. */
static struct {
    struct peaks {
        uint64_t held, reserved;
        uint64_t looked_ns;
    } seen[VRAMGC_MAX_DEVICES];
} self;

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

/* What a point has seen is the most of each figure, at whatever moment. */
static void raise_sample(struct vramgc_sample *sample, const struct vramgc_sample *seen) {
    figure_set(&sample->held_bytes, max_u64(sample->held_bytes, seen->held_bytes));
    figure_set(&sample->reserved_bytes, max_u64(sample->reserved_bytes, seen->reserved_bytes));
    figure_set(&sample->allocated_bytes, max_u64(sample->allocated_bytes, seen->allocated_bytes));
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

/* What a figure reached since the latest look, known where its peak was reached since. */
static uint64_t reached(const struct vramgc_gauge *gauge, uint64_t *seen_peak) {
    uint64_t peak = figure_get(&gauge->peak), now = figure_get(&gauge->current);
    uint64_t most = peak > *seen_peak ? max_u64(peak, now) : now;
    *seen_peak = peak;
    return most;
}

/* Others than this process are taken to hold at the peak what they hold now. What is live is held,
 * unless it was spilled: live memory that fell since the latest look was held then, too. */
static struct vramgc_sample look(const struct vramgc_device *device, uint64_t live_top_bytes) {
    const struct vramgc_device_stats *stats = &device->stats;
    struct peaks *seen = &self.seen[device - store_file()->devices];
    uint64_t live = max_u64(live_top_bytes, figure_get(&stats->live_bytes.current));
    uint64_t held = reached(&stats->held_bytes, &seen->held);
    if (!figure_get(&stats->spilled_bytes.peak))
        held = max_u64(held, live);
    uint64_t more = minus_u64(held, figure_get(&stats->held_bytes.current));
    uint64_t used = figure_get(&stats->used_bytes.current) + more;
    uint64_t total = figure_get(&device->total_bytes);
    return (struct vramgc_sample){store_age_ns(),
                                  held,
                                  reached(&stats->reserved_bytes, &seen->reserved),
                                  live,
                                  total ? min_u64(used, total) : used,
                                  figure_get(&stats->others_bytes.current)};
}

/* Up to Python's end. What is now is taken to have been so since the look before. */
static void add_to_averages(struct vramgc_device *device) {
    struct vramgc_device_stats *stats = &device->stats;
    struct peaks *seen = &self.seen[device - store_file()->devices];
    uint64_t now_ns = store_age_ns();
    uint64_t ms = seen->looked_ns ? minus_u64(now_ns, seen->looked_ns) / MILLISECOND_NS : 0;
    uint64_t live = figure_get(&stats->live_bytes.current);
    uint64_t held =
        minus_u64(figure_get(&stats->held_bytes.current), figure_get(&stats->other_bytes.current));
    seen->looked_ns = now_ns;
    if (live < MEBIBYTE || figure_get(&store_file()->python_ended_ns))
        return;
    figure_add(&stats->held_ms_sum_kib, held / KIBIBYTE * ms);
    figure_add(&stats->live_ms_sum_kib, live / KIBIBYTE * ms);
}

void store_sample(struct vramgc_device *device, uint64_t first_step_ns, uint64_t live_top_bytes) {
    struct vramgc_sample sample = look(device, live_top_bytes);
    add_to_averages(device);
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

static void keep(struct vramgc_device *device, bool of_end) {
    struct vramgc_rest *rest = &device->rest;
    figures_copy(&rest->stats, &device->stats, sizeof rest->stats);
    figures_copy(rest->of_libraries, device->of_libraries, sizeof rest->of_libraries);
    figure_set(&rest->of_end, of_end);
    figure_set(&rest->time_ns, max_u64(store_age_ns(), 1));
}

void store_rest(struct vramgc_device *device) {
    keep(device, false);
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
            keep(&file->devices[i], true);
}
