/* jobs.c: see jobs.h. A job began with the first block event after a rest, and is over when the
 * program rests after live memory has risen and fallen by more than a little. It must not take the
 * loading of a model for a job, nor a wait for the GPU in the midst of one for its end. */
#include "track/jobs.h"

#include "base/log.h"
#include "base/text.h"
#include "host/memory.h"
#include "track/process_state.h"
#include "track/recorder.h"

/* A job is over when no block came or went for so many rests, a second: on a slow card
 * one step of a large model makes the program wait for the GPU nearly as long. */
enum { RESTS = 20 };

/* Where live memory is what it was before, to the byte, nothing of the job is left: no more is to
 * come. Requests of a server follow each other in less than a second. */
enum { SAME_RESTS = 4 };

/* Live memory that has risen and stays: a wait for the GPU. After so long it is a model that was
 * loaded. */
enum { LOADED_RESTS = 2 * RESTS };

/* A device between two looks. */
struct watch {
    bool at_work, rose;
    uint64_t look_ns, changed_ns;            /* the latest look; when an event was last seen */
    uint64_t began_ns;                       /* the look before the first event */
    uint64_t rest_live;                      /* what was live then */
    uint64_t low_live, peak_live, peak_held; /* since then, as the looks saw it */
    uint64_t held_peak_seen, live_seen;      /* at the latest look */
    uint64_t count, left_live;               /* jobs so far, and what was live after the latest */
    uint64_t moved_before;                   /* moved_bytes after that one */
};

static struct { struct watch watches[VRAMGC_MAX_DEVICES]; } self;

/* Its peak of all times has risen since the latest look: then it was reached since. */
static uint64_t held_since(struct watch *watch, const struct vramgc_gauge *held) {
    uint64_t peak = figure_get(&held->peak), now = figure_get(&held->current);
    uint64_t most = peak > watch->held_peak_seen ? max_u64(peak, now) : now;
    watch->held_peak_seen = peak;
    return most;
}

static uint64_t least_move(const struct device *device) {
    return growth_least_bytes(figure_get(&device->out->total_bytes));
}

/* A job may begin by freeing, as where one model makes room for another: that is no fall after a
 * rise, so a rise counts from the lowest point before it. */
static void note_live(struct device *device, struct watch *watch, uint64_t top_bytes) {
    watch->live_seen = figure_get(&device->out->stats.live_bytes.current);
    watch->peak_live = max_u64(watch->peak_live, max_u64(watch->live_seen, top_bytes));
    watch->rose = watch->rose || top_bytes >= watch->low_live + least_move(device);
    watch->low_live = min_u64(watch->low_live, watch->live_seen);
}

/* The first event came since the look before; the first look of all is one step late at most. */
static void begin_job(struct watch *watch, uint64_t now) {
    watch->at_work = true;
    watch->rose = false;
    watch->began_ns = watch->look_ns ? watch->look_ns : now - settings_standards()->sample_ns;
    watch->low_live = watch->rest_live = watch->live_seen;
    watch->peak_live = watch->peak_held = 0;
}

/* Since the start, by functions that move models to the card; not by those that read files. */
static uint64_t moved_bytes(struct device *device) {
    const struct vramgc_site *site = store_file()->sites;
    uint64_t bytes = 0;
    LOCKED(&device->lock);
    for (uint32_t i = 0; i < device->owners.site_count; i++, site++)
        if (strcmp(site->phase, "model move") == 0 && !strstr(site->function, "from_"))
            bytes += device->owners.of[i].taken_bytes;
    return bytes;
}

static struct vramgc_job describe_job(struct device *device, struct watch *watch) {
    uint64_t started_ns = figure_get(&store_file()->started_ns);
    const struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t moved = moved_bytes(device);
    return (struct vramgc_job){
        .time_ns = minus_u64(watch->began_ns, started_ns),
        .took_ns = watch->changed_ns - watch->began_ns,
        .number = ++watch->count,
        .peak_live_bytes = watch->peak_live,
        /* Held is seen at the looks only; live memory lies in it, or in the host. */
        .peak_held_bytes = max_u64(
            watch->peak_held, minus_u64(watch->peak_live, figure_get(&stats->spilled_bytes.peak))),
        .live_bytes = watch->live_seen,
        .host_bytes = host_memory_own_bytes(),
        .pinned_bytes = figure_get(&stats->pinned_bytes.current),
        .moved_bytes = moved - watch->moved_before,
        .device = device_index(device),
    };
}

static void add_since(struct text *text, const struct vramgc_job *job, uint64_t before) {
    bool more = job->live_bytes >= before;
    if (job->number == 1)
        return;
    text_add(text, more ? " (+" : " (-");
    text_add_bytes(text, more ? job->live_bytes - before : before - job->live_bytes);
    text_format(text, " since job %lu)", job->number - 1);
}

static void say_job(const struct vramgc_job *job, uint64_t before) {
    TEXT_OVER(text, line, 200);
    if (job->device)
        text_format(&text, "gpu%u ", (unsigned)job->device);
    text_format(&text, "job %lu  ", job->number);
    text_add_duration(&text, job->took_ns);
    text_add(&text, "  peak live ");
    text_add_bytes(&text, job->peak_live_bytes);
    text_add(&text, " held ");
    text_add_bytes(&text, job->peak_held_bytes);
    text_add(&text, "  now ");
    text_add_bytes(&text, job->live_bytes);
    add_since(&text, job, before);
    LOG_EACH(LOG_INFO, "%s", line);
}

/* The program rests, or has ended. */
static void judge_job(struct device *device, struct watch *watch, bool for_long) {
    uint64_t least = least_move(device);
    bool fell = watch->peak_live >= watch->live_seen + least;
    bool rises = watch->rose || watch->live_seen >= watch->low_live + least;
    watch->at_work = rises && !(watch->rose && fell) && !for_long;
    if (!(watch->rose && fell))
        return;
    struct vramgc_job job = describe_job(device, watch);
    uint64_t before = watch->left_live;
    watch->left_live = job.live_bytes;
    watch->moved_before += job.moved_bytes;
    store_job(&job);
    recorder_note(device, VRAMGC_NOTE_JOB, job.number);
    say_job(&job, before);
}

void jobs_look(struct device *device, uint64_t top_bytes, uint64_t changed_ns, uint64_t now) {
    struct watch *watch = &self.watches[device_index(device)];
    uint64_t rest_ns = settings_standards()->rest_ns;
    bool changed = changed_ns != watch->changed_ns;
    if (changed && watch->at_work && now - watch->changed_ns >= RESTS * rest_ns)
        judge_job(device, watch, false); /* it rested so long between two looks */
    if (changed && !watch->at_work)
        begin_job(watch, now);
    watch->changed_ns = changed_ns;
    note_live(device, watch, top_bytes);
    watch->peak_held = max_u64(watch->peak_held, held_since(watch, &device->out->stats.held_bytes));
    watch->look_ns = now;
    uint64_t rested_ns = now - changed_ns;
    uint64_t rests = watch->live_seen == watch->rest_live ? SAME_RESTS : RESTS;
    if (watch->at_work && rested_ns >= rests * rest_ns)
        judge_job(device, watch, rested_ns >= LOADED_RESTS * rest_ns);
}

void jobs_conclude(void) {
    uint64_t now = clock_ns();
    for (EACH_DEVICE(device)) {
        jobs_look(device, growth_take_top(&device->growth), now, now);
        judge_job(device, &self.watches[device_index(device)], true);
    }
}
