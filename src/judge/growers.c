/* growers.c: see growers.h. It must raise no false alarm: models are loaded in the first jobs, and
 * a cache fills and stays. And it must name no function for a part: one that has more than half, or
 * none. */
#include "judge/growers.h"
#include "judge/webui.h"
#include "judge/who.h"
#include "read/units.h"
#include "base/base.h"

#include <string.h>

enum kinship { SAME_PLACE, SAME_PHASE, SAME_FILE };

static bool are_alike(const struct vramgc_site *one, const struct vramgc_site *other,
                      enum kinship by) {
    return by == SAME_PLACE   ? one == other
           : by == SAME_PHASE ? *one->phase && strcmp(one->phase, other->phase) == 0
                              : *one->file && strcmp(one->file, other->file) == 0;
}

/* By the names that transformers and vLLM have for it. */
bool site_is_cache(const struct vramgc_site *site) {
    const char *name = site->function;
    return strstr(name, "DynamicCache.") || strstr(name, "StaticCache.") ||
           strstr(name, "KVCache") || strstr(name, "kv_cache");
}

/* By its phase, or by a name as loaders have it: no table has them all. */
bool site_loads(const struct vramgc_site *site) {
    static const char *const names[] = {"load", "from_pretrained", "create_model", "build_model",
                                        "init_model"};
    static const char *const others[] = {"unload", "upload", "download", "offload"};
    const char *dot = strrchr(site->function, '.'), *name = dot ? dot + 1 : site->function;
    bool does = strcmp(site->phase, "model move") == 0 || strcmp(site->phase, "LoRA") == 0 ||
                strcmp(site->phase, "optimizer") == 0;
    for (size_t i = 0; i < ARRAY_LENGTH(names) && !*site->phase; i++)
        does = does || strcasestr(name, names[i]);
    does = does || strcmp(name, "__init__") == 0; /* whatever it is a part of */
    for (size_t i = 0; i < ARRAY_LENGTH(others) && !*site->phase; i++)
        does = does && !strcasestr(name, others[i]);
    return does && !site_is_cache(site);
}

/* Who merges one into the weights makes these anew. */
bool site_is_lora(const struct vramgc_site *site) {
    return strcmp(site->phase, "LoRA") == 0 || strncmp(site->file, "tuners/", 7) == 0 ||
           ((strcasestr(site->function, "lora") || strcasestr(site->file, "lora")) &&
            !strcasestr(site->function, "merge") && !strcasestr(site->function, "fuse"));
}

/* The innermost of the call and those around it that loads: 1 + its index; 0: none. */
static uint64_t loader_around(const struct vramgc_file *file, uint64_t call) {
    while (call && !site_loads(&file->sites[file->calls[call - 1].site]))
        call = file->calls[call - 1].caller;
    return call;
}

/* The function's first call in the list: 1 + its index; 0: it has none there. */
static uint64_t first_call_of(const struct vramgc_file *file, const struct vramgc_owners *calls,
                              const struct vramgc_site *site) {
    for (uint64_t i = 0; i < calls->count; i++)
        if (&file->sites[file->calls[calls->list[i].site].site] == site)
            return calls->list[i].site + 1;
    return 0;
}

/* The function itself, or whoever called it where most of it lies. */
static bool is_loaded(const struct vramgc_file *file, const struct vramgc_owners *calls,
                      const struct vramgc_site *site) {
    uint64_t call = first_call_of(file, calls, site);
    return call ? loader_around(file, call) : site_loads(site);
}

/* The list is of an eighth to a quarter of the run (owners.h), grown_bytes of three quarters: with
 * whom all of it stays has a sixth of it there at least; below half of that others, who are not
 * known, have more. */
enum { SHARE = 12 };

static const struct vramgc_site *most(const struct vramgc_file *file,
                                      const struct vramgc_owners *grown, uint64_t grown_bytes,
                                      enum kinship by) {
    for (uint64_t i = 0; i < grown->count; i++) {
        const struct vramgc_site *site = &file->sites[grown->list[i].site];
        uint64_t bytes = 0;
        for (uint64_t j = 0; j < grown->count; j++)
            if (are_alike(site, &file->sites[grown->list[j].site], by))
                bytes += grown->list[j].bytes;
        if (bytes > grown->live_bytes / 2 && bytes >= grown_bytes / SHARE)
            return site;
    }
    return NULL;
}

/* Where so much was added in the run: of one function, or of several the phase or the file that
 * they share; else nothing. */
static void say_with_whom(struct text *text, const struct vramgc_file *file,
                          const struct vramgc_device *device, uint64_t grown_bytes) {
    const struct vramgc_owners *grown = &device->owners_grown;
    const struct vramgc_site *site = most(file, grown, grown_bytes, SAME_PLACE);
    const struct vramgc_site *of_phase = most(file, grown, grown_bytes, SAME_PHASE);
    const struct vramgc_site *of_file = most(file, grown, grown_bytes, SAME_FILE);
    if (site)
        text_format(text, "; most comes from %s%s%s", who_short_name(site).text,
                    *site->phase ? ", " : "", site->phase);
    else if (of_phase || of_file)
        text_format(text, "; most comes from %s",
                    of_phase ? of_phase->phase : text_after_folder(of_file->file));
}

bool growers_are(enum growers of, const struct vramgc_file *file,
                 const struct vramgc_device *device, uint64_t grown_bytes) {
    const struct vramgc_owners *grown = &device->owners_grown;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < grown->count; i++) {
        const struct vramgc_site *site = &file->sites[grown->list[i].site];
        if (of == GROWERS_LORA    ? site_is_lora(site)
            : of == GROWERS_CACHE ? site_is_cache(site)
                                  : is_loaded(file, &device->calls_at_peak, site))
            bytes += grown->list[i].bytes;
    }
    return bytes > grown->live_bytes / 2 && bytes >= grown_bytes / SHARE;
}

const struct vramgc_owner *growers_row(const struct vramgc_file *file,
                                       const struct vramgc_device *device,
                                       const struct vramgc_refusal *refusal) {
    enum { ROUNDING = 16 };         /* a segment is rounded up to 2 MiB */
    enum { LEAST_BYTES = 2 << 20 }; /* the sizes of smaller ones are not known */
    const struct vramgc_owner *owner =
        who_find(&device->owners_at_oom, (uint64_t)refusal->site - 1);
    if (!owner || refusal->request_bytes < LEAST_BYTES || owner->blocks < GROWERS_PIECES ||
        is_loaded(file, &device->calls_at_oom, &file->sites[owner->site]))
        return NULL;
    uint64_t mean = owner->bytes / owner->blocks, wanted = refusal->request_bytes;
    uint64_t differs = max_u64(mean, wanted) - min_u64(mean, wanted);
    return differs <= wanted / ROUNDING ? owner : NULL;
}

/* ---- on the card ---- */

/* Growth shows in this many floors at the least, by this much. Of fewer than MANY_TURNS all may be
 * of one large job, whose live memory rises as it goes: they must rise in each part, and evenly, as
 * a loop does. Of eight runs of Stable Diffusion 1.5, SDXL and Flux, each cut off where it would
 * run out of memory on cards of 60 sizes, 40 would else be growth: up to 25 turns with SD 1.5 at
 * 1024x1024, batch 16, up to 778 with SDXL at 2560x2560, batch 2. Jobs of mixed sizes, each of
 * which keeps 8 to 300 MiB, rise unevenly and make 4,000 and more. */
enum { LEAST_TURNS = 8, MANY_TURNS = 1024, PARTS = 6, EVEN = 3 };
#define GROWTH_BYTES ((uint64_t)64 << 20)

static uint64_t lowest(const uint64_t *bytes, uint64_t from, uint64_t end) {
    uint64_t least = UINT64_MAX;
    for (uint64_t i = from; i < end; i++)
        least = min_u64(least, bytes[i]);
    return least;
}

/* In each part after the first about as much. */
static bool rises_evenly(const uint64_t *bytes, uint64_t from, uint64_t end) {
    uint64_t count = end - from, before = lowest(bytes, from, from + count / PARTS);
    uint64_t least = UINT64_MAX, most = 0;
    for (uint64_t i = 1; i < PARTS; i++) {
        uint64_t low = lowest(bytes, from + i * count / PARTS, from + (i + 1) * count / PARTS);
        least = min_u64(least, minus_u64(low, before));
        most = max_u64(most, minus_u64(low, before));
        before = low;
    }
    return least > 0 && most / EVEN <= least;
}

/* Models are loaded in the first quarter. In each of the others the floor must be higher than in
 * the one before, and no quarter may bring nearly all of it: that is one model more, no leak. */
static struct oom_growth growth_in(const uint64_t *bytes, uint64_t count) {
    uint64_t quarter = count / 4, low[4];
    if (count < LEAST_TURNS)
        return (struct oom_growth){0};
    for (uint64_t i = 0; i < 4; i++)
        low[i] = lowest(bytes, i * quarter, i < 3 ? (i + 1) * quarter : count);
    uint64_t third = minus_u64(low[2], low[1]), fourth = minus_u64(low[3], low[2]);
    return (struct oom_growth){
        .grows = low[0] < low[1] && third >= fourth / 4 && fourth >= third / 4 &&
                 third + fourth >= GROWTH_BYTES,
        .first_bytes = low[1],
        .latest_bytes = bytes[count - 1],
        .steps = count - 1 - quarter,
    };
}

uint64_t growth_bytes(const struct oom_growth *growth) {
    return minus_u64(growth->latest_bytes, growth->first_bytes);
}

uint64_t left_by_jobs(const struct stats_file *record, const struct vramgc_device *device,
                      uint64_t until_ns, uint64_t left[VRAMGC_MAX_JOBS]) {
    uint64_t count = 0;
    for (size_t i = 0; i < record->job_count; i++) {
        const struct vramgc_job *job = record->jobs[i];
        if (job_is_over(job, (uint64_t)(device - record->file->devices), until_ns))
            left[count++] = job->live_bytes;
    }
    return count;
}

/* A model that is loaded layer by layer leaves more and more, as it should: then only what stays
 * from job to job is growth. */
struct oom_growth growth_until(const struct stats_file *record, const struct vramgc_device *device,
                               uint64_t turns, uint64_t until_ns) {
    const struct vramgc_floors *floors = &device->floors;
    uint64_t merged = max_u64(floors->merged, 1), left[VRAMGC_MAX_JOBS];
    uint64_t count = min_u64(min_u64(floors->count, VRAMGC_MAX_FLOORS), turns / merged);
    struct oom_growth growth = growth_in(floors->bytes, count);
    struct oom_growth jobs = growth_in(left, left_by_jobs(record, device, until_ns, left));
    bool of_one = turns < MANY_TURNS && !rises_evenly(floors->bytes, count / 4, count);
    growth.grows =
        growth.grows && (jobs.grows || (!of_one && !growers_are(GROWERS_LOAD, record->file, device,
                                                                growth_bytes(&growth))));
    growth.jobs = jobs.grows ? jobs.steps : 0;
    growth.job_bytes = jobs.grows ? growth_bytes(&jobs) / jobs.steps : 0;
    return growth;
}

/* A program that ends does not rest between two jobs. */
struct oom_growth growth_of(const struct stats_file *record, const struct vramgc_device *device) {
    bool runs = record->state == PROCESS_RUNNING;
    return growth_until(record, device, device->floors.turns,
                        runs ? UINT64_MAX : minus_u64(record->elapsed_ns, SECOND_NS));
}

/* ---- a load under way ---- */

/* Live bytes of the loader, and of functions that it called; NULL: of all loaders. */
static uint64_t bytes_of_loader(const struct vramgc_file *file, const struct vramgc_owners *calls,
                                const struct vramgc_site *loader) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < calls->count; i++) {
        uint64_t call = loader_around(file, calls->list[i].site + 1);
        while (call && loader && &file->sites[file->calls[call - 1].site] != loader)
            call = file->calls[call - 1].caller;
        bytes += call ? calls->list[i].bytes : 0;
    }
    return bytes;
}

/* Where nothing was freed while much came that is the latest floor. Else it is the lowest of those
 * that rise up to the latest, as a load's do: by an eighth of what came and went where it makes 4
 * bits of 32. Work leaves about what it found. Below the first floor there may have been a rest. */
uint64_t live_before(const struct stats_file *record, const struct vramgc_device *device,
                     const struct vramgc_refusal *refusal) {
    enum { FREED_PART = 256, LOAD_PART = 16 }; /* as growth_least_bytes; half of an eighth */
    const struct vramgc_floors *floors = &device->floors;
    uint64_t left[VRAMGC_MAX_JOBS];
    uint64_t jobs = left_by_jobs(record, device, refusal->time_ns, left);
    uint64_t rest = jobs ? left[jobs - 1] : 0, merged = max_u64(floors->merged, 1);
    uint64_t least = merged * (device->total_bytes / FREED_PART / LOAD_PART);
    uint64_t at = min_u64(min_u64(floors->count, VRAMGC_MAX_FLOORS), refusal->turns / merged);
    if (!at--)
        return rest;
    uint64_t risen = minus_u64(refusal->allocated_bytes, floors->bytes[at]);
    if (risen / GROWERS_PIECES >= max_u64(refusal->request_bytes, 1))
        return floors->bytes[at];
    while (at && floors->bytes[at] != rest && floors->bytes[at - 1] + least < floors->bytes[at])
        at--;
    return at ? floors->bytes[at] : min_u64(rest, floors->bytes[at]);
}

/* Of the loaders around who asked it is the innermost that has put most of it there; where none
 * has, but loaders have all together, as where one model was loaded before, the outermost, if it
 * loads piece by piece. */
struct oom_part load_at(const struct stats_file *record, const struct vramgc_device *device,
                        const struct vramgc_refusal *refusal, uint64_t *earlier_bytes) {
    const struct vramgc_file *file = record->file;
    const struct vramgc_owners *calls = &device->calls_at_oom;
    const struct vramgc_site *asked = who_asked(file, refusal);
    uint64_t risen = minus_u64(refusal->allocated_bytes, live_before(record, device, refusal));
    uint64_t call = asked ? first_call_of(file, calls, asked) : 0, all = 0, most = risen / 4 * 3;
    const struct vramgc_site *loader = NULL;
    while (all < most && (call = loader_around(file, call))) {
        loader = &file->sites[file->calls[call - 1].site];
        all = bytes_of_loader(file, calls, loader);
        call = file->calls[call - 1].caller;
    }
    uint64_t loaded = min_u64(all, risen), least = max_u64(refusal->request_bytes, 1);
    bool after_others =
        loaded / GROWERS_PIECES >= least && bytes_of_loader(file, calls, NULL) >= most;
    if (!loader || loaded < least || (all < most && !after_others))
        return (struct oom_part){0};
    *earlier_bytes = all - loaded;
    return (struct oom_part){loader, loaded};
}

void growth_say(struct text *text, const struct vramgc_file *file,
                const struct vramgc_device *device, const struct oom_growth *growth) {
    uint64_t grown = growth_bytes(growth);
    if (growth->jobs)
        text_format(text, "+%s a job, %s jobs", show_bytes(growth->job_bytes).text,
                    show_count(growth->jobs).text);
    else
        text_format(text, "+%s, to %s", show_bytes(grown).text,
                    show_bytes(growth->latest_bytes).text);
    say_with_whom(text, file, device, grown);
}

/* ---- in the host ---- */

/* A thread that begins to allocate brings an arena of its own, which is 64 MiB in glibc (malloc's
 * HEAP_MAX_SIZE); four of these are no growth. */
#define LEAST_HOST_BYTES (256 * MEBIBYTE)

/* Of page-locked memory, which lies beside what is resident or in it, and of the rest; from job to
 * job, or in one. */
struct host_growth {
    struct oom_growth growth;
    bool pinned, in_job;
};

/* A cache that is full by now has stayed the same since the last quarter began. */
static bool goes_on(const uint64_t *bytes, size_t count, const struct oom_growth *growth) {
    uint64_t grown = growth_bytes(growth);
    uint64_t before = bytes[count - count / 4];
    return grown >= LEAST_HOST_BYTES && growth->latest_bytes > before &&
           growth->latest_bytes - before >= grown / 3 / 4; /* its share would be a third */
}

static struct host_growth host_growth_of_jobs(const struct stats_file *record, bool pinned) {
    uint64_t bytes[VRAMGC_MAX_JOBS];
    size_t count = 0;
    for (size_t i = 0; i < record->job_count; i++) {
        const struct vramgc_job *job = record->jobs[i];
        if (pinned || job->host_bytes)
            bytes[count++] = pinned ? job->pinned_bytes : job->host_bytes;
    }
    struct oom_growth growth = growth_in(bytes, count);
    growth.grows = growth.grows && goes_on(bytes, count, &growth);
    return (struct host_growth){growth, pinned, false};
}

/* A step is a round of work on a device: so often memory came and went there. Weights that a loader
 * brings to another type come and go, too. */
static struct host_growth host_growth_in_job(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    const struct vramgc_floors *floors = &file->host.floors;
    uint64_t count = min_u64(floors->count, VRAMGC_MAX_FLOORS);
    uint64_t latest = min_u64(file->latest_site, file->site_count);
    struct oom_growth growth = growth_in(floors->bytes, count);
    growth.steps *= max_u64(floors->merged, 1);
    growth.grows = growth.grows && record->job_count < LEAST_TURNS &&
                   goes_on(floors->bytes, count, &growth) &&
                   rises_evenly(floors->bytes, count / 4, count) &&
                   !(latest && site_loads(&file->sites[latest - 1]));
    return (struct host_growth){growth, false, true};
}

static struct host_growth host_growth_of(const struct stats_file *record) {
    struct host_growth found = host_growth_of_jobs(record, true);
    found = found.growth.grows ? found : host_growth_of_jobs(record, false);
    return found.growth.grows ? found : host_growth_in_job(record);
}

bool record_grows(const struct stats_file *record) {
    bool grows = host_growth_of(record).growth.grows;
    for (size_t i = 0; i < record->file->device_count; i++)
        grows = grows || growth_of(record, &record->file->devices[i]).grows;
    return grows;
}

void facts_of_growth(struct facts *facts, const struct stats_file *record, bool on_card) {
    char words[320];
    for (size_t i = 0; on_card && i < record->file->device_count; i++) {
        const struct vramgc_device *device = &record->file->devices[i];
        struct oom_growth growth = growth_of(record, device);
        struct text text = TEXT_IN(words);
        growth_say(&text, record->file, device, &growth);
        fact_if(facts, growth.grows, ON_CARD);
        fact_word(facts, "growth", growth.grows ? words : NULL);
    }
    fact_count(facts, "graphs", growers_graphs(record->file));
    struct host_growth found = host_growth_of(record);
    struct text text = TEXT_IN(words);
    webui_say_pins_less(&text, record->file);
    if (!found.growth.grows)
        return;
    fact_if(facts, true, IN_RAM | (found.pinned ? PINNED : 0) | (found.in_job ? IN_JOB : 0));
    fact_word(facts, "pin less", words);
    fact_word(facts, "page-locked", found.pinned ? "page-locked" : NULL);
    fact_bytes(facts, "in RAM", growth_bytes(&found.growth) / found.growth.steps);
    fact_count(facts, found.in_job ? "rounds" : "jobs", found.growth.steps);
}
