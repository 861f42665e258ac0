/* show: prints what a statistics file says, one line for each fact, for the tests of reclaim. It
 * reads the layout itself, so that these tests depend on the library and on nothing else.
 *   show FILE parked|parker NUMBER    sets that word, of a program that may run */
#include "vramgc_format.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct vramgc_file file;

static const char *const kinds[] = {"none", "soft_oom", "flush", "trim", "pages"};
static const char *const reasons[] = {"none", "threshold", "lowvram", "asked", "refused", "peer"};
static const char *const causes[] = {"unknown", "full",  "fragmented", "rounded",
                                     "driver",  "limit", "host"};

static void show_actions(void) {
    for (uint64_t i = 0; i < file.actions_written && i < VRAMGC_MAX_ACTIONS; i++) {
        const struct vramgc_action *a = &file.actions[i];
        printf("action %s %s device=%u observed=%u request=%" PRIu64 " used=%" PRIu64
               " before=%" PRIu64 " after=%" PRIu64 " took=%" PRIu64 " function=%s net=%" PRIu64
               " held=%" PRIu64 " asker=%" PRIu64 "/%s\n",
               kinds[a->kind], reasons[a->reason], a->device, a->observed, a->request_bytes,
               a->used_bytes, a->before_bytes, a->after_bytes, a->took_ns, a->function,
               a->net_bytes, a->held_bytes, a->asker, a->asker_name);
    }
}

static void show_refusals(void) {
    for (uint64_t i = 0; i < file.refusals_written && i < VRAMGC_MAX_REFUSALS; i++) {
        const struct vramgc_refusal *r = &file.refusals[i];
        printf("refusal %s granted=%u request=%" PRIu64 " free=%" PRIu64 " idle=%" PRIu64
               " hook=%s holes=%" PRIu64 " hole_bytes=%" PRIu64 " largest=%" PRIu64
               " reported=%u total=%" PRIu64 " held=%" PRIu64 " other=%" PRIu64 " live=%" PRIu64
               "\n",
               causes[r->cause], r->granted, r->request_bytes, r->free_bytes, r->idle_bytes,
               file.hooks[r->hook].name, r->holes, r->hole_bytes, r->largest_hole_bytes,
               r->reported, r->total_bytes, r->held_bytes, r->other_bytes, r->allocated_bytes);
    }
}

static void show_jobs(void) {
    for (uint64_t i = 0; i < file.jobs_written && i < VRAMGC_MAX_JOBS; i++) {
        const struct vramgc_job *job = &file.jobs[i];
        printf("job %" PRIu64 " device=%" PRIu64 " peak_live=%" PRIu64 " peak_held=%" PRIu64
               " live=%" PRIu64 " host=%" PRIu64 " pinned=%" PRIu64 " took=%" PRIu64 "\n",
               job->number, job->device, job->peak_live_bytes, job->peak_held_bytes,
               job->live_bytes, job->host_bytes, job->pinned_bytes, job->took_ns);
    }
}

static void show_device(const struct vramgc_device *device) {
    const struct vramgc_device_stats *stats = &device->stats;
    printf("worked_ns %" PRIu64 "\n", device->worked_ns);
#define DEVICE_GAUGE(name, unit, help)                                                             \
    printf(#name " %" PRIu64 "\n" #name "_peak %" PRIu64 "\n", stats->name.current,                \
           stats->name.peak);
#define DEVICE_TOTAL(name, unit, help) printf(#name " %" PRIu64 "\n", stats->name);
#define PROCESS_TOTAL(name, unit, help)
#include "stats.def"
}

static void show_process(void) {
    const struct vramgc_process_stats *stats = &file.process;
#define DEVICE_GAUGE(name, unit, help)
#define DEVICE_TOTAL(name, unit, help)
#define PROCESS_TOTAL(name, unit, help) printf(#name " %" PRIu64 "\n", stats->name);
#include "stats.def"
    printf("parked %" PRIu64 "\nparker %" PRIu64 "\n", file.parked, file.parker);
    printf("end %" PRIu64 "\nsites %" PRIu64 "\n", file.end, file.site_count);
    printf("host_call %s\nhost_in_use_bytes %" PRIu64 "\n", file.host.call, file.host.in_use_bytes);
    printf("torch %s\nconf %s\nwhy %s\nmode %s\nmode_why %s\n", file.torch_version, file.alloc_conf,
           file.alloc_conf_why, file.mode, file.mode_why);
}

static int set(const char *path, const char *name, const char *value) {
    uint64_t number = strtoull(value, NULL, 10);
    FILE *out = fopen(path, "r+b");
    long at = strcmp(name, "parked") == 0 ? (long)offsetof(struct vramgc_file, parked)
                                          : (long)offsetof(struct vramgc_file, parker);
    bool done = out && fseek(out, at, SEEK_SET) == 0 && fwrite(&number, sizeof number, 1, out) == 1;
    return done && fclose(out) == 0 ? 0 : 2;
}

int main(int argc, char **argv) {
    if (argc == 4)
        return set(argv[1], argv[2], argv[3]);
    FILE *in = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!in || fread(&file, sizeof file, 1, in) != 1 || memcmp(file.magic, VRAMGC_MAGIC, 8)) {
        fprintf(stderr, "show: no statistics file\n");
        return 2;
    }
    fclose(in);
    show_actions();
    show_refusals();
    show_jobs();
    show_device(&file.devices[0]);
    show_process();
    return 0;
}
