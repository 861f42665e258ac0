/* tally.c: see tally.h. It must not judge. */
#include "judge/tally.h"

#include "judge/crash.h"
#include "read/derived.h"
#include "base/base.h"

static void count_refusals(struct tally *tally, const struct stats_file *record) {
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = record->refusals[i];
        tally->granted += refusal->granted == 1;
        if (refusal->granted)
            continue;
        tally->failed++;
        tally->went_on += refusal->reported == VRAMGC_WENT_ON;
        tally->failed_hosts += refusal->cause == VRAMGC_REFUSAL_HOST;
        tally->failed_others += refusal->cause != VRAMGC_REFUSAL_HOST && !refusal->reported;
        tally->failed_refusal = refusal_to_tell(tally->failed_refusal, refusal);
        if (tally->failed_refusal == refusal)
            tally->failed_in = record;
    }
}

static void count_actions(struct tally *tally, const struct stats_file *record) {
    for (size_t i = 0; i < record->action_count; i++)
        if (!record->actions[i]->observed)
            tally->most_net_bytes = max_u64(tally->most_net_bytes, record->actions[i]->net_bytes);
}

static void count_highest(struct tally *tally, const struct stats_file *record,
                          const struct vramgc_device *device) {
    const struct vramgc_device_stats *stats = &device->stats;
    if (stats->block_allocs == 0 ||
        (tally->highest && stats->held_bytes.peak <= tally->highest->stats.held_bytes.peak))
        return;
    tally->highest = device;
    tally->highest_in = record;
}

/* Each at its own peak: the timeline has a point every tenth of a second or less often, and what
 * lives shorter (a VAE's decoding) is what the memory was needed for. It is measured by all that
 * the process holds: beside the weights of comfy-aimdo, which vramgc cannot give back, PyTorch's
 * idle memory is little. */
bool tally_much_idle(const struct vramgc_device_stats *stats) {
    double idle = (double)held_by_pytorch(stats) - (double)stats->live_bytes.peak;
    return idle >= (double)VERDICT_IDLE_BYTES &&
           idle >= VERDICT_IDLE_SHARE * (double)stats->held_bytes.peak;
}

/* The driver's pool, and nothing else, is why no pages follow live blocks (govern/mode_table.c). */
static bool pool_idle(const struct stats_file *record, const struct vramgc_device_stats *stats) {
    return record->file->driver_pool && stats->block_allocs > 0 && tally_much_idle(stats);
}

static void count_device(struct tally *tally, const struct stats_file *record, size_t index) {
    const struct vramgc_device_stats *s = &record->file->devices[index].stats;
    tally->ooms += (double)s->ooms;
    tally->unseen_ooms += (double)s->refused_blocks;
    tally->would_reclaims += (double)s->would_reclaims;
    tally->reclaimed_bytes += (double)s->reclaimed_bytes;
    tally->reclaim_ns += (double)s->reclaim_ns;
    tally->blocks_seen = tally->blocks_seen || s->block_allocs > 0 || s->reserved_bytes.peak > 0;
    tally->pool_idle = tally->pool_idle || pool_idle(record, s);
    count_highest(tally, record, &record->file->devices[index]);
}

struct tally tally_of(struct stats_file *const *records, size_t count) {
    struct tally tally = {0};
    for (size_t i = 0; i < count; i++) {
        count_refusals(&tally, records[i]);
        count_actions(&tally, records[i]);
        tally.impossible += records[i]->file->process.impossible_calls > 0;
        if (is_crash(records[i]) || has_vanished(records[i], records, count))
            tally.crashed = records[i];
        for (size_t j = 0; j < records[i]->file->device_count; j++)
            count_device(&tally, records[i], j);
    }
    return tally;
}

bool tally_all_went_on(const struct tally *tally) {
    return tally->failed_refusal && tally->failed_refusal->reported == VRAMGC_WENT_ON;
}

/* Where PyTorch has told of none, each request that stayed refused is one. */
uint64_t tally_ooms(const struct tally *tally) {
    uint64_t told = tally->ooms > 0 ? to_u64(tally->ooms) : tally->failed;
    return minus_u64(told, tally_all_went_on(tally) ? 0 : tally->went_on);
}
