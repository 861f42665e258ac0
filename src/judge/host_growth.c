/* host_growth.c: see host_growth.h. It must raise no false alarm: models are loaded in the first
 * jobs, and a cache fills and stays. */
#include "judge/host_growth.h"
#include "judge/webui.h"
#include "base/base.h"
#include "judge/cause.h"
#include "read/units.h"

/* A thread that begins to allocate brings an arena of its own, which is 64 MiB in glibc (malloc's
 * HEAP_MAX_SIZE); four of these are no growth. */
#define LEAST_BYTES (256 * MEBIBYTE)

/* Of page-locked memory, which lies beside what is resident or in it, and of the rest. */
struct host_growth {
    struct oom_growth growth;
    bool pinned;
};

/* What has stayed the same since the last quarter began is a cache that is full by now. */
static bool goes_on(const uint64_t *bytes, size_t count, const struct oom_growth *growth) {
    uint64_t grown = growth_bytes(growth);
    uint64_t before = bytes[count - count / 4];
    return grown >= LEAST_BYTES && growth->latest_bytes > before &&
           growth->latest_bytes - before >= grown / 3 / 4; /* its share would be a third */
}

static struct host_growth growth_of_jobs(const struct stats_file *record, bool pinned) {
    uint64_t bytes[VRAMGC_MAX_JOBS];
    size_t count = 0;
    for (size_t i = 0; i < record->job_count; i++) {
        const struct vramgc_job *job = record->jobs[i];
        if (pinned || job->host_bytes)
            bytes[count++] = pinned ? job->pinned_bytes : job->host_bytes;
    }
    struct oom_growth growth = growth_in(bytes, count);
    growth.grows = growth.grows && goes_on(bytes, count, &growth);
    return (struct host_growth){growth, pinned};
}

static struct host_growth find(const struct stats_file *record) {
    struct host_growth found = growth_of_jobs(record, true);
    return found.growth.grows ? found : growth_of_jobs(record, false);
}

bool host_memory_grows(const struct stats_file *record) {
    return find(record).growth.grows;
}

bool host_growth_say(struct text *text, const struct stats_file *record) {
    struct host_growth found = find(record);
    const struct oom_growth *growth = &found.growth;
    if (!growth->grows)
        return false;
    text_format(text, "%sHost memory grows: +%s a job, %s jobs.", text->length ? " " : "",
                show_bytes(growth_bytes(growth) / growth->steps).text,
                show_count(growth->steps).text);
    if (found.pinned)
        text_add(text, " It is page-locked.");
    return true;
}

bool host_growth_say_todo(struct text *text, const struct stats_file *record) {
    struct host_growth found = find(record);
    if (!found.growth.grows)
        return false;
    text_add(text, text->length ? " " : "");
    if (found.pinned) {
        webui_say_pins_less(text, record->file);
        text_add(text, ", or find what keeps it.");
    } else
        text_add(text, "Do you keep results or previews in a list? Write them to disk. Is a model "
                       "loaded anew for each job? Delete the one before.");
    return true;
}

bool host_growth_say_all(struct text *text, const struct stats_file *record) {
    return host_growth_say(text, record) && host_growth_say_todo(text, record);
}
