/* make_file_host.c: the scenarios that are about memory of the host. */
#include "make_file_parts.h"

#include <string.h>

enum { HOST_JOBS = 36 };

/* Models are loaded in the first jobs; then each leaves a little. A few tens of MiB come and go. */
static void host_growth(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, (i < 3 ? i : 3) * GIB + 120 * i * MIB + i % 3 * 20 * MIB);
}

static void host_loaded(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, (i < 6 ? i : 6) * GIB + i % 5 * 40 * MIB);
}

/* A cache fills until two thirds, and stays. */
static void host_cache(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, (i < 24 ? i : 24) * 200 * MIB + i % 3 * 10 * MIB + 2 * GIB);
}

/* One model more in the midst of the run. */
static void host_model(struct vramgc_file *file) {
    plain(file);
    for (uint64_t i = 0; i < HOST_JOBS; i++)
        add_job(file, i * SECOND, 2 * GIB + (i > 0) * GIB + (i > 20) * 4 * GIB + i * MIB);
}

/* Killed in a container that is full. */
static void killed(struct vramgc_file *file) {
    plain(file);
    file->end_status = 9;
    file->devices[0].stats.pinned_bytes = gauge(2 * GIB, 3 * GIB);
    file->process.host_released_bytes = 5 * GIB;
    file->process.pinned_released_bytes = GIB;
    file->host = (struct vramgc_host){.latest = {.time_ns = 4327 * SECOND,
                                                 .anon_bytes = 12 * GIB,
                                                 .shared_bytes = GIB,
                                                 .file_bytes = 512 * MIB,
                                                 .swap_bytes = 2 * GIB,
                                                 .limit_bytes = 16 * GIB,
                                                 .group_bytes = 15 * GIB,
                                                 .total_bytes = 64 * GIB,
                                                 .available_bytes = 40 * GIB},
                                      .peak = {.time_ns = 4000 * SECOND, .anon_bytes = 14 * GIB},
                                      .lack = VRAMGC_LACK_KILLED,
                                      .in_use_bytes = 11 * GIB,
                                      .call = "malloc_trim"};
}

/* Nobody saw how it ended, and it was swapped out at most. */
static void killed_unseen(struct vramgc_file *file) {
    killed(file);
    file->end = VRAMGC_END_UNKNOWN;
    file->host.peak.swap_bytes = file->process.host_unused_bytes = 3 * GIB;
}

static void killed_not_for_lack(struct vramgc_file *file) {
    killed(file);
    file->host.lack = VRAMGC_LACK_NONE;
    file->host.latest.limit_bytes = 65 * GIB; /* more than there is */
    file->devices[0].stats.pinned_bytes = gauge(4, 17);
    file->process.host_released_bytes = file->process.pinned_released_bytes = 13;
}

/* Page-locked: five blocks of 1 GiB, and a few small ones. */
static void pinned(struct vramgc_file *file) {
    plain(file);
    file->devices[0].stats.pinned_bytes = gauge(5 * GIB, 5 * GIB + 20 * MIB);
    file->devices[0].stats.pinned_rounded_bytes = gauge(5 * GIB, 5 * GIB);
}

static void pinned_old(struct vramgc_file *file) {
    pinned(file);
    strcpy(file->torch_version, "2.13.0");
}

static void pinned_exact(struct vramgc_file *file) {
    pinned(file);
    file->devices[0].stats.pinned_bytes.peak += 600 * MIB; /* blocks of other sizes */
}

bool make_of_host(struct vramgc_file *file, const char *scenario) {
    static const struct scenario scenarios[] = {{"host-growth", host_growth},
                                                {"host-loaded", host_loaded},
                                                {"host-cache", host_cache},
                                                {"host-model", host_model},
                                                {"killed", killed},
                                                {"killed-unseen", killed_unseen},
                                                {"killed-not-for-lack", killed_not_for_lack},
                                                {"pinned", pinned},
                                                {"pinned-old", pinned_old},
                                                {"pinned-exact", pinned_exact}};
    return make_one_of(file, scenarios, sizeof scenarios / sizeof scenarios[0], scenario);
}
