/* make_file_states.c: runs of any length, as the library would have kept them:
 * `run:SECONDS:FUNCTIONS:CARDS:END`, where END is exit, oom, crash or empty. Each state of the page
 * is one of them. */
#include "make_file_parts.h"

#include <stdio.h>
#include <string.h>

enum { LOOKS_A_SECOND = 10 };

struct run {
    uint64_t looks, functions, cards;
    char end[16];
};

static uint64_t max(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Looks that become one point, so that there are no more than so many. */
static uint64_t looks_of_point(const struct run *run, uint64_t most) {
    uint64_t looks = 1;
    while (run->looks / looks >= most)
        looks *= 2;
    return looks;
}

/* A job of 12 seconds at most, of an hour two minutes of rest: the model, what text and steps need,
 * and a short peak. */
static uint64_t live_at(const struct run *run, uint64_t look, uint64_t card) {
    uint64_t job = run->looks > 1200 ? 120 : 25, part = (look + 7 * card) % job * 100 / job;
    uint64_t base = look * 40 / run->looks > 0 ? 4 * GIB : look * 40 * GIB / run->looks / 10;
    bool rests = look / 10 % 3600 > 3480 || look < run->looks / 40;
    uint64_t work = rests || part < 8 ? 0
                    : part < 25       ? 300 * MIB
                    : part < 80       ? 1200 * MIB
                    : part < 92       ? 3500 * MIB
                                      : 100 * MIB;
    return (base + work) / (card + 1) + look % 3 * MIB;
}

/* What is theirs of so much: the first functions keep the model, the last ones work; alike where
 * there are many. */
static uint64_t owned(const struct run *run, uint64_t live, uint64_t function) {
    if (run->functions < 3)
        return run->functions == 1 ? live
               : function == 0     ? (live > 4 * GIB ? 4 * GIB : live)
                                   : live - owned(run, live, 0);
    return live / run->functions * (80 + function * 20 / run->functions) / 100;
}

static void add_look(const struct run *run, struct vramgc_device *device, uint64_t look,
                     uint64_t card) {
    uint64_t live = live_at(run, look, card),
             held = max(live, live_at(run, look ? look - 1 : 0, card)) + 60 * MIB;
    uint64_t point = look / looks_of_point(run, VRAMGC_MAX_SAMPLES), ms = 1000 / LOOKS_A_SECOND;
    struct vramgc_sample *sample = &device->samples[point];
    if (point == device->sample_count)
        *sample = (struct vramgc_sample){.time_ns = look * SECOND / LOOKS_A_SECOND,
                                         .held_low_bytes = held,
                                         .allocated_low_bytes = live,
                                         .others_bytes = 500 * MIB};
    device->sample_count = point + 1;
    sample->held_bytes = sample->reserved_bytes = max(sample->held_bytes, held);
    sample->allocated_bytes = max(sample->allocated_bytes, live);
    sample->used_bytes = sample->held_bytes + sample->others_bytes;
    sample->held_low_bytes = held < sample->held_low_bytes ? held : sample->held_low_bytes;
    sample->allocated_low_bytes =
        live < sample->allocated_low_bytes ? live : sample->allocated_low_bytes;
    sample->allocated_ms_sum_kib += live / 1024 * ms;
    sample->ms += ms;
}

static void list_owners(const struct run *run, struct vramgc_owners *owners, uint64_t live) {
    owners->live_bytes = live;
    for (uint32_t i = 0; i < run->functions; i++)
        add_owner(owners, (uint32_t)run->functions - 1 - i,
                  owned(run, live, run->functions - 1 - i));
}

static void note_who(const struct run *run, struct vramgc_device *device, uint64_t look,
                     uint64_t card) {
    uint64_t point = look / looks_of_point(run, VRAMGC_MAX_WHO), live = live_at(run, look, card);
    struct vramgc_who *who = &device->who[point];
    uint64_t time_ns = point == device->who_count ? look * SECOND / LOOKS_A_SECOND : who->time_ns;
    if (point < device->who_count && live <= who->live_bytes)
        return;
    device->who_count = point + 1;
    *who = (struct vramgc_who){.time_ns = time_ns, .live_bytes = live, .works = 1};
    for (uint32_t i = 0; i < run->functions && i < VRAMGC_WHO_OWNERS; i++) {
        uint32_t site = (uint32_t)run->functions - 1 - i;
        who->sites[who->count] = (uint16_t)site;
        who->kib[who->count++] = (uint32_t)(owned(run, live, site) / 1024);
    }
}

static void record_card(const struct run *run, struct vramgc_file *file, uint64_t card) {
    struct vramgc_device *device = &file->devices[card];
    uint64_t live = 0, held = 0;
    set_device(file, card, card ? "NVIDIA GeForce RTX 3060" : "NVIDIA GeForce RTX 3090");
    device->total_bytes = (card ? 12 : 8) * GIB;
    device->sample_count = 0;
    memset(device->samples, 0, sizeof device->samples);
    device->sample_step_ns = looks_of_point(run, VRAMGC_MAX_SAMPLES) * SECOND / LOOKS_A_SECOND;
    for (uint64_t look = 0; look < run->looks; look++) {
        add_look(run, device, look, card);
        note_who(run, device, look, card);
    }
    for (uint64_t i = 0; i < device->sample_count; i++) {
        live = max(live, device->samples[i].allocated_bytes);
        held = max(held, device->samples[i].held_bytes);
    }
    device->stats.live_bytes = device->stats.allocated_bytes = gauge(GIB, live);
    device->stats.held_bytes = device->stats.reserved_bytes = gauge(GIB, held);
    device->stats.used_bytes = gauge(GIB + 500 * MIB, held + 500 * MIB);
    device->worked_ns = run->looks * SECOND / LOOKS_A_SECOND;
    list_owners(run, &device->owners_at_peak, live);
}

static void run_out(const struct run *run, struct vramgc_file *file) {
    uint64_t end_ns = run->looks * SECOND / LOOKS_A_SECOND;
    add_refusal(file, end_ns - SECOND / 20, VRAMGC_CAUSE_FULL, 0);
    struct vramgc_refusal *refusal = &file->refusals[0];
    refusal->total_bytes = 8 * GIB;
    refusal->allocated_bytes = 6500 * MIB;
    refusal->held_bytes = refusal->reserved_bytes = 6992 * MIB;
    refusal->site = 1;
    file->devices[0].stats.ooms = 1;
    file->devices[0].stats.held_bytes.peak = 7600 * MIB;
    list_owners(run, &file->devices[0].owners_at_oom, 6500 * MIB);
}

static void add_happenings(const struct run *run, struct vramgc_file *file) {
    uint64_t end_ns = run->looks * SECOND / LOOKS_A_SECOND, step_ns = end_ns / 8;
    for (uint64_t i = 1; i < 8; i++) {
        add_job(file, i * step_ns, 3 * GIB);
        file->jobs[i - 1].took_ns = step_ns * 3 / 4;
        add_action(file, i * step_ns + step_ns / 2, VRAMGC_ACTION_PAGES, 0);
        file->actions[i - 1].until_ns = i * step_ns + step_ns / 2;
    }
    add_mark(file, step_ns, "warm");
}

static void name_functions(const struct run *run, struct vramgc_file *file) {
    static const char *const phases[] = {"", "text encode", "denoise", "VAE"};
    for (uint64_t i = 0; i < run->functions; i++) {
        char function[64], name[64];
        snprintf(function, sizeof function, run->functions < 3 ? "%s" : "Block%s%02lu.forward",
                 i ? "decode" : "load_model", (unsigned long)i);
        snprintf(name, sizeof name, "models/part_%lu.py", (unsigned long)i % 7);
        add_site(file, function, name, (uint32_t)(10 + i), run->functions < 3 ? "" : phases[i % 4]);
    }
}

bool make_run(struct vramgc_file *file, const char *scenario) {
    struct run run = {0};
    unsigned long seconds, functions, cards;
    if (sscanf(scenario, "run:%lu:%lu:%lu:%15s", &seconds, &functions, &cards, run.end) != 4)
        return false;
    run.looks = seconds * LOOKS_A_SECOND;
    run.functions = functions;
    run.cards = strcmp(run.end, "empty") == 0 ? 0 : cards;
    set_head(file);
    file->latest_ns = file->started_ns + seconds * SECOND;
    file->end_status = strcmp(run.end, "crash") == 0 ? 11
                       : strcmp(run.end, "oom") == 0 ? 1 << 8
                                                     : 0;
    name_functions(&run, file);
    for (uint64_t card = 0; card < run.cards; card++)
        record_card(&run, file, card);
    if (run.cards)
        add_happenings(&run, file);
    if (strcmp(run.end, "oom") == 0)
        run_out(&run, file);
    return true;
}
