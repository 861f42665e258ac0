/* who.c: see who.h. It shows what the file says, and judges nothing; but it must not call a peak
 * short that a longer look would find again. */
#include "judge/who.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"
#include "base/parse.h"

#include <string.h>

const struct vramgc_owner *who_find(const struct vramgc_owners *owners, uint64_t site) {
    for (uint64_t i = 0; i < owners->count; i++)
        if (owners->list[i].site == site)
            return &owners->list[i];
    return NULL;
}

static uint64_t bytes_of(const struct vramgc_owners *owners, uint64_t site) {
    const struct vramgc_owner *owner = who_find(owners, site);
    return owner ? owner->bytes : 0;
}

static uint64_t rest_of(const struct vramgc_owners *owners) {
    uint64_t rest = owners->live_bytes;
    for (uint64_t i = 0; i < owners->count; i++)
        rest = minus_u64(rest, owners->list[i].bytes);
    return rest;
}

bool who_has_oom(const struct vramgc_device *device) {
    return device->owners_at_oom.count > 0;
}

size_t who_rows(const struct vramgc_file *file, const struct vramgc_device *device,
                struct who_row rows[WHO_ROWS]) {
    const struct vramgc_owners *peak = &device->owners_at_peak, *oom = &device->owners_at_oom;
    size_t count = 0;
    for (uint64_t i = 0; i < peak->count; i++)
        rows[count++] = (struct who_row){&file->sites[peak->list[i].site], peak->list[i].bytes,
                                         bytes_of(oom, peak->list[i].site)};
    for (uint64_t i = 0; i < oom->count; i++)
        if (!bytes_of(peak, oom->list[i].site))
            rows[count++] =
                (struct who_row){&file->sites[oom->list[i].site], 0, oom->list[i].bytes};
    if (count > 0)
        rows[count++] =
            (struct who_row){NULL, rest_of(peak), who_has_oom(device) ? rest_of(oom) : 0};
    return count;
}

static void add_callers(const struct vramgc_file *file, uint32_t call, struct who_stack *stack) {
    uint64_t inwards[VRAMGC_MAX_DEPTH];
    for (uint64_t of = call + 1; of && stack->depth < VRAMGC_MAX_DEPTH;
         of = file->calls[of - 1].caller)
        inwards[stack->depth++] = file->calls[of - 1].site;
    for (size_t i = 0; i < stack->depth; i++)
        stack->sites[i] = inwards[stack->depth - 1 - i];
}

static uint64_t bytes_without_callers(const struct vramgc_file *file,
                                      const struct vramgc_owner *owner,
                                      const struct vramgc_owners *calls) {
    uint64_t bytes = owner->bytes;
    for (uint64_t i = 0; i < calls->count; i++)
        if (file->calls[calls->list[i].site].site == owner->site)
            bytes = minus_u64(bytes, calls->list[i].bytes);
    return bytes;
}

bool who_stack(const struct vramgc_file *file, const struct vramgc_owners *owners,
               const struct vramgc_owners *calls, size_t number, struct who_stack *stack) {
    *stack = (struct who_stack){0};
    if (number < calls->count) {
        add_callers(file, calls->list[number].site, stack);
        stack->bytes = calls->list[number].bytes;
    } else if (number - calls->count < owners->count) {
        const struct vramgc_owner *owner = &owners->list[number - calls->count];
        stack->sites[stack->depth++] = owner->site;
        stack->bytes = bytes_without_callers(file, owner, calls);
    } else {
        return false;
    }
    return true;
}

bool who_is_same(const struct vramgc_site *a, const struct vramgc_site *b) {
    return strcmp(a->function, b->function) == 0 && strcmp(a->file, b->file) == 0 &&
           strcmp(a->phase, b->phase) == 0;
}

const struct vramgc_site *who_asked(const struct vramgc_file *file,
                                    const struct vramgc_refusal *refusal) {
    bool known = refusal->site > 0 && refusal->site <= file->site_count;
    return known ? &file->sites[refusal->site - 1] : NULL;
}

/* The owner had as much, or nearly, at a time that was not the peak. A point holds until the
 * next one. */
static bool has_it_elsewhere(const struct vramgc_device *device, const struct vramgc_owner *owner,
                             const struct short_peak *peak) {
    for (uint64_t i = 0; i < device->who_count; i++) {
        const struct vramgc_who *who = &device->who[i];
        uint64_t end_ns = i + 1 < device->who_count ? who[1].time_ns : UINT64_MAX;
        bool outside = who->time_ns < peak->from_ns || end_ns > peak->until_ns;
        for (uint32_t j = 0; outside && j < who->count; j++)
            if (who->sites[j] == owner->site &&
                who_bytes(who, j) >= owner->bytes - owner->bytes / 8)
                return true;
    }
    return false;
}

const struct vramgc_site *who_works_at_peak(const struct vramgc_file *file,
                                            const struct vramgc_device *device,
                                            const struct short_peak *peak) {
    const struct vramgc_owners *owners = &device->owners_at_peak;
    uint64_t least = (peak->live_bytes - peak->else_bytes) / 2;
    for (uint64_t i = 0; i < owners->count && owners->list[i].bytes >= least; i++) {
        const struct vramgc_site *site = &file->sites[owners->list[i].site];
        if (strcmp(site->phase, "model move") != 0 &&
            !has_it_elsewhere(device, &owners->list[i], peak))
            return site;
    }
    return NULL;
}

static struct who_name name_with(const struct vramgc_site *site, const char *file) {
    struct who_name name;
    struct text text = TEXT_IN(name.text);
    if (strncmp(site->function, "<module>", 8) == 0) /* no function, and it begins in line 1 */
        text_format(&text, "the top level of %s", file);
    else
        text_format(&text, "%s (%s:%u)", site->function, file, site->line);
    return name;
}

struct who_name who_name(const struct vramgc_site *site) {
    return site ? name_with(site, site->file)
                : (struct who_name){.text = "smaller ones, or without a name"};
}

struct who_name who_short_name(const struct vramgc_site *site) {
    return name_with(site, text_after_folder(site->file));
}

const struct vramgc_who *who_when(const struct vramgc_device *device,
                                  const struct vramgc_job *job) {
    uint64_t i = 0;
    while (i < device->who_count &&
           (device->who[i].time_ns < job->time_ns || device->who[i].live_bytes != job->live_bytes))
        i++;
    return i < device->who_count ? &device->who[i] : NULL;
}

uint64_t who_more_than(const struct vramgc_who *then, uint64_t site, uint64_t bytes) {
    for (uint32_t i = 0; then && i < then->count; i++)
        bytes = minus_u64(bytes, then->sites[i] == site ? who_bytes(then, i) : 0);
    return bytes;
}

/* "; 3.3 GiB more than after the first job: load_model (sd_models.py:310)": of who has most more,
 * if that is worth a word, and is not who asked; "of it more", of who is told already. */
static void add_grown(struct text *text, const struct stats_file *record,
                      const struct vramgc_device *device, const struct vramgc_refusal *refusal) {
    const struct vramgc_owners *owners = &device->owners_at_oom;
    const struct vramgc_job *job = record->job_count ? record->jobs[0] : NULL;
    bool over = job && job_is_over(job, refusal->device, refusal->time_ns);
    const struct vramgc_who *then = over ? who_when(device, job) : NULL;
    const struct vramgc_site *site = NULL;
    uint64_t most = owners->live_bytes / 16, more;
    for (uint64_t i = 0; then && i < owners->count; i++)
        if ((more = who_more_than(then, owners->list[i].site, owners->list[i].bytes)) > most) {
            most = more;
            site = &record->file->sites[owners->list[i].site];
        }
    if (!site || site == who_asked(record->file, refusal))
        return;
    bool told = site == &record->file->sites[owners->list[0].site];
    text_format(text, "; %s %s than after the first job%s%s", show_bytes(most).text,
                told ? "of it more" : "more", told ? "" : ": ", told ? "" : who_name(site).text);
}

void who_say_most(struct text *text, const struct stats_file *record,
                  const struct vramgc_device *device, const struct vramgc_refusal *refusal) {
    bool then = refusal && who_has_oom(device);
    if (!device || !(then || device->owners_at_peak.count))
        return;
    const struct vramgc_owners *owners = then ? &device->owners_at_oom : &device->owners_at_peak;
    const struct vramgc_site *site = &record->file->sites[owners->list[0].site];
    bool ended = owners->live_bytes < device->stats.live_bytes.peak / 16 * 15; /* while it rose */
    const char *when = then ? "then" : ended ? "near the peak" : "at the peak";
    text_format(text, "%s of %s live %s: %s%s%s", show_bytes(owners->list[0].bytes).text,
                show_bytes(owners->live_bytes).text, when, who_name(site).text,
                *site->phase ? ", " : "", site->phase);
    if (then)
        add_grown(text, record, device, refusal);
}

/* ---- the peak ---- */

/* Short is what lies within this part of the run on either side of its highest point, a quarter in
 * all: there must be so many points that it is some of them. */
enum { SIDE = 8, LEAST_SAMPLES = 16 };

/* It stands out by this much and by this part of itself, as idle memory does that is worth a word
 * (VERDICT_IDLE_BYTES); what is less than half of it is not the program's work, but its start. */
#define LEAST_MORE_BYTES ((uint64_t)512 << 20)
enum { LEAST_PART = 16, MOST_ELSE = 2 };

static uint64_t highest_live(const struct vramgc_device *device) {
    uint64_t highest = 0;
    for (uint64_t i = 1; i < device->sample_count; i++)
        if (device->samples[i].allocated_bytes > device->samples[highest].allocated_bytes)
            highest = i;
    return highest;
}

/* A point has what was seen since the one before, and until the next. */
static uint64_t sample_start(const struct vramgc_device *device, uint64_t i) {
    return i > 0 ? device->samples[i - 1].time_ns : 0;
}

static uint64_t sample_end(const struct vramgc_device *device, uint64_t i) {
    return i + 1 < device->sample_count ? device->samples[i + 1].time_ns
                                        : device->samples[i].time_ns;
}

static uint64_t most_elsewhere(const struct vramgc_device *device, uint64_t from_ns,
                               uint64_t until_ns) {
    uint64_t most = 0;
    for (uint64_t i = 0; i < device->sample_count; i++)
        if (sample_end(device, i) <= from_ns || sample_start(device, i) >= until_ns)
            most = max_u64(most, device->samples[i].allocated_bytes);
    return most;
}

static uint64_t live_at(const struct vramgc_device *device, uint64_t time_ns) {
    uint64_t i = device->sample_count - 1;
    while (i > 0 && device->samples[i].time_ns > time_ns)
        i--;
    return device->samples[i].allocated_bytes;
}

/* It rises until the run ends, and was as steep before: that is no peak. */
static bool rises_to_end(const struct vramgc_device *device, const struct short_peak *peak,
                         uint64_t side_ns, uint64_t more) {
    uint64_t before = live_at(device, peak->from_ns);
    uint64_t earlier = live_at(device, minus_u64(peak->from_ns, side_ns));
    return peak->until_ns >= device->samples[device->sample_count - 1].time_ns &&
           before >= earlier + more / 2;
}

struct short_peak short_peak_of(const struct vramgc_device *device, uint64_t elapsed_ns) {
    if (device->sample_count < LEAST_SAMPLES)
        return (struct short_peak){0};
    uint64_t highest = highest_live(device), side_ns = elapsed_ns / SIDE;
    struct short_peak peak = {.time_ns = device->samples[highest].time_ns,
                              .live_bytes = device->samples[highest].allocated_bytes};
    peak.from_ns = minus_u64(sample_start(device, highest), side_ns);
    peak.until_ns = sample_end(device, highest) + side_ns;
    peak.else_bytes = most_elsewhere(device, peak.from_ns, peak.until_ns);
    uint64_t more = minus_u64(peak.live_bytes, peak.else_bytes);
    peak.stands_alone = more >= max_u64(LEAST_MORE_BYTES, peak.live_bytes / LEAST_PART) &&
                        peak.else_bytes >= peak.live_bytes / MOST_ELSE &&
                        !rises_to_end(device, &peak, side_ns, more);
    return peak;
}

/* ---- libraries ---- */

/* The least part of what all of them held at their peak: there are about eight lines then; and the
 * least that is worth one. */
enum { LIBRARY_PART = 8 };
#define LEAST_LIBRARY_BYTES ((uint64_t)1 << 20)

const char *library_name(const struct vramgc_file *file, uint64_t index) {
    bool named = index > 0 && index < file->library_count && *file->libraries[index].name;
    return named ? file->libraries[index].name : NULL;
}

const char *library_of_most(const struct vramgc_file *file, const struct vramgc_device *device) {
    for (uint64_t i = 1; i < file->library_count; i++)
        if (device->of_libraries[i].peak > device->stats.other_bytes.peak / 2)
            return library_name(file, i);
    return NULL;
}

bool library_is_uncached(const struct vramgc_file *file, const struct vramgc_device *device) {
    const char *library = library_of_most(file, device);
    return device->stats.reserved_bytes.peak == 0 && library && strstr(library, "libc10_cuda");
}

bool library_shows(const struct vramgc_device *device, uint64_t index) {
    uint64_t least = max_u64(device->stats.other_bytes.peak / LIBRARY_PART, LEAST_LIBRARY_BYTES);
    return device->of_libraries[index].peak >= least;
}

/* ---- what other programs leave or give ---- */

static void say_amount(struct text *text, uint64_t amount) {
    double percent = amount_percent(amount);
    if (percent > 0)
        text_format(text, "%.4g %%", percent);
    else
        text_add(text, show_bytes(amount).text);
}

bool shared_card_say_limits(struct text *text, const struct vramgc_limits *limits) {
    if (limits->headroom) {
        text_add(text, "head-room: ");
        say_amount(text, limits->headroom);
        text_add(text, " stay free for others");
    }
    if (limits->cap) {
        text_add(text, limits->headroom ? "; cap: " : "cap: ");
        say_amount(text, limits->cap);
        text_add(text, " at most");
    }
    return limits->headroom || limits->cap;
}

bool shared_card_say_giver(struct text *text, const struct vramgc_file *file) {
    bool any = false;
    for (size_t i = 0; i < file->device_count; i++) {
        const struct vramgc_device *device = &file->devices[i];
        const struct vramgc_giver *giver = &device->giver;
        if (!giver->pid)
            continue;
        text_format(text, "%s %s from %s (%lu)%s in %s", any ? "," : "lacked memory, and got",
                    show_bytes(device->stats.peer_bytes).text,
                    *giver->name ? giver->name : "a program", giver->pid,
                    giver->several ? " and others" : "",
                    show_time(device->stats.peer_wait_ns).text);
        any = true;
    }
    return any;
}
