/* rings.c: actions, refusals, marks, jobs, settings and the timeline in the statistics file; see
 * store.h and vramgc_format.h. It must keep the rule of the rings: an entry's sequence is written
 * last. */
#include "base/text.h"
#include "store/store.h"

/* The peaks of a device as they were when a point of its timeline was last looked for. */
static struct {
    struct peaks {
        uint64_t held, reserved;
    } seen[VRAMGC_MAX_DEVICES];
} self;

/* All kinds of entries are whole words and begin with these two. */
typedef uint64_t __attribute__((may_alias)) word;
enum { SEQUENCE, TIME_NS, REST };
#define BEGINS_RIGHT(kind)                                                                         \
    _Static_assert(offsetof(struct kind, sequence) == SEQUENCE * sizeof(word) &&                   \
                       offsetof(struct kind, time_ns) == TIME_NS * sizeof(word) &&                 \
                       sizeof(struct kind) % sizeof(word) == 0,                                    \
                   "put and copy_words rely on it")
BEGINS_RIGHT(vramgc_action);
BEGINS_RIGHT(vramgc_refusal);
BEGINS_RIGHT(vramgc_mark);
BEGINS_RIGHT(vramgc_job);

enum {
    SETTINGS = 0
#define OPTION(type, name, variable, standard, low, high, words, help) +1
#include "options.def"
#undef OPTION
};
_Static_assert(SETTINGS <= VRAMGC_MAX_SETTINGS, "the file has room for every line of options.def");

/* Claims the next entry of a ring and counts what it overwrites. */
static uint64_t claim(uint64_t *written, uint64_t capacity) {
    uint64_t index = figure_add(written, 1) - 1;
    if (index >= capacity)
        figure_add(&store_file()->process.lost_records, 1);
    return index;
}

/* The slot belongs to this writer until the entry is complete, and nobody takes it for valid
 * meanwhile. False: another writer, a whole round earlier or later, has it; this entry is lost
 * instead of the one it would have overwritten, so the count of lost records stays right. */
static bool begin(word *sequence, uint64_t index) {
    uint64_t seen = __atomic_load_n(sequence, __ATOMIC_RELAXED);
    while (seen <= index)
        if (__atomic_compare_exchange_n(sequence, (word *)&seen, VRAMGC_BEING_WRITTEN, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
    return false;
}

/* Word by word and atomically, because a reader may look at the same moment; whether it saw one
 * whole entry the sequence tells it: who sees a new word sees BEING_WRITTEN after it, at least. */
static void copy_words(word *to, const word *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        __atomic_store_n(to + i, __atomic_load_n(from + i, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

/* Returns the entry's sequence. */
static uint64_t put(uint64_t *written, void *ring, uint64_t capacity, const void *entry,
                    size_t bytes) {
    const word *from = entry;
    uint64_t index = claim(written, capacity);
    uint64_t time_ns = from[TIME_NS] ? from[TIME_NS] : store_age_ns();
    word *slot = (word *)ring + index % capacity * (bytes / sizeof *slot);
    if (begin(slot + SEQUENCE, index)) {
        copy_words(slot + TIME_NS, &time_ns, 1);
        copy_words(slot + REST, from + REST, bytes / sizeof *slot - REST);
        __atomic_store_n(slot + SEQUENCE, index + 1, __ATOMIC_RELEASE);
    }
    return index + 1;
}

/* Writes an entry again, unless its place is a later one's by now. */
static void put_again(void *ring, uint64_t capacity, const void *entry, size_t bytes) {
    const word *from = entry;
    word sequence = from[SEQUENCE], expected = sequence;
    word *slot = (word *)ring + (sequence - 1) % capacity * (bytes / sizeof *slot);
    if (!__atomic_compare_exchange_n(slot + SEQUENCE, &expected, VRAMGC_BEING_WRITTEN, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    copy_words(slot + TIME_NS, from + TIME_NS, bytes / sizeof *slot - TIME_NS);
    __atomic_store_n(slot + SEQUENCE, sequence, __ATOMIC_RELEASE);
}

uint64_t store_action(const struct vramgc_action *action) {
    struct vramgc_file *file = store_file();
    return put(&file->actions_written, file->actions, VRAMGC_MAX_ACTIONS, action, sizeof *action);
}

void store_action_again(const struct vramgc_action *action) {
    put_again(store_file()->actions, VRAMGC_MAX_ACTIONS, action, sizeof *action);
}

bool store_action_at(uint64_t index, struct vramgc_action *out) {
    const struct vramgc_action *slot = &store_file()->actions[index % VRAMGC_MAX_ACTIONS];
    if (__atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE) != index + 1)
        return false;
    copy_words((word *)out, (const word *)slot, sizeof *out / sizeof(word));
    return __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) == index + 1;
}

uint64_t store_refusal(const struct vramgc_refusal *refusal) {
    struct vramgc_file *file = store_file();
    return put(&file->refusals_written, file->refusals, VRAMGC_MAX_REFUSALS, refusal,
               sizeof *refusal);
}

void store_refusal_again(const struct vramgc_refusal *refusal) {
    put_again(store_file()->refusals, VRAMGC_MAX_REFUSALS, refusal, sizeof *refusal);
}

void store_mark(const char *label) {
    struct vramgc_file *file = store_file();
    struct vramgc_mark mark = {0};
    text_copy(mark.label, sizeof mark.label, label);
    put(&file->marks_written, file->marks, VRAMGC_MAX_MARKS, &mark, sizeof mark);
}

void store_job(const struct vramgc_job *job) {
    struct vramgc_file *file = store_file();
    put(&file->jobs_written, file->jobs, VRAMGC_MAX_JOBS, job, sizeof *job);
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

/* Others than this process are taken to hold at the peak what they hold now. */
static struct vramgc_sample look(const struct vramgc_device *device, uint64_t live_top_bytes) {
    const struct vramgc_device_stats *stats = &device->stats;
    struct peaks *seen = &self.seen[device - store_file()->devices];
    uint64_t held = reached(&stats->held_bytes, &seen->held);
    uint64_t more = minus_u64(held, figure_get(&stats->held_bytes.current));
    uint64_t used = figure_get(&stats->used_bytes.current) + more;
    uint64_t live = max_u64(live_top_bytes, figure_get(&stats->live_bytes.current));
    uint64_t total = figure_get(&device->total_bytes);
    return (struct vramgc_sample){store_age_ns(),
                                  held,
                                  reached(&stats->reserved_bytes, &seen->reserved),
                                  live,
                                  total ? min_u64(used, total) : used,
                                  figure_get(&stats->others_bytes.current)};
}

void store_sample(struct vramgc_device *device, uint64_t first_step_ns, uint64_t live_top_bytes) {
    struct vramgc_sample sample = look(device, live_top_bytes);
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
