/* tally.c: see tally.h. It must not judge; nor say that memory was why a program crashed: a signal
 * does not tell. */
#include "judge/tally.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"

#include <signal.h>

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

/* ---- a program that crashed ---- */

/* Of page-locked memory that is worth a word, as of idle memory (VERDICT_IDLE_BYTES). */
#define LEAST_LOCKED_BYTES (512 * MEBIBYTE)

bool is_crash(const struct stats_file *record) {
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS,
                                  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS};
    for (size_t i = 0; record->state == PROCESS_KILLED && i < ARRAY_LENGTH(signals); i++)
        if (record->signal == signals[i])
            return true;
    return false;
}

void crash_say(struct text *text, const struct stats_file *crashed) {
    if (!crashed)
        return;
    bool seen = crashed->state == PROCESS_KILLED;
    text_format(text, "%s%s at %s: %s.", text->length ? " " : "",
                seen ? "CRASHED" : "Ended without a word",
                crashed->elapsed_ns ? show_clock(crashed->elapsed_ns).text : "an unknown moment",
                seen ? show_signal(crashed->signal).text
                     : "killed, or crashed. Only what started it saw which");
}

/* What the program itself started it may have ended, as Python's terminate() does. */
bool has_vanished(const struct stats_file *record, struct stats_file *const *records,
                  size_t count) {
    const struct vramgc_file *file = record->file;
    bool told = file->stop_asked || file->python_ended_ns;
    for (size_t i = 0; i < count; i++)
        told = told || records[i]->file->pid == file->parent_pid;
    return record->state == PROCESS_VANISHED && !told;
}

static void say_ram(struct text *text, const struct vramgc_host_look *look) {
    if (!look->time_ns)
        return;
    text_format(text, " At %s the program had %s of RAM.", show_clock(look->time_ns).text,
                show_bytes(ram_bytes(look)).text);
    if (look->swap_bytes)
        text_format(text, " %s more were swapped out.", show_bytes(look->swap_bytes).text);
    if (look->limit_bytes && look->limit_bytes < look->total_bytes)
        text_format(text, " The limit of its control group was %s. %s counted against that.",
                    show_bytes(look->limit_bytes).text, show_bytes(look->group_bytes).text);
    else if (look->total_bytes)
        text_format(text, " The machine had %s left.", show_bytes(look->available_bytes).text);
}

/* Linux sends it by itself where RAM runs out. */
static void say_sender(struct text *text, uint64_t lack) {
    if (lack == VRAMGC_LACK_KILLED)
        text_add(text, "Linux ended a process of its control group for lack of RAM: `dmesg` tells "
                       "which.");
    else if (lack == VRAMGC_LACK_NONE)
        text_add(text, "Linux did not end it for lack of RAM. Something else sent SIGKILL: "
                       "earlyoom, systemd-oomd or a user.");
    else
        text_add(text, "SIGKILL often comes from the kernel, for lack of RAM: `dmesg` tells.");
}

void crash_say_cause(struct text *text, const struct stats_file *crashed) {
    double pinned = 0;
    if (!crashed || (crashed->signal != SIGKILL &&
                     (crashed->signal || crashed->file->host.lack != VRAMGC_LACK_KILLED)))
        return;
    for (size_t i = 0; i < crashed->file->device_count; i++)
        pinned += (double)crashed->file->devices[i].stats.pinned_bytes.current;
    say_sender(text, crashed->file->host.lack);
    say_ram(text, &crashed->file->host.latest);
    if (pinned >= (double)LEAST_LOCKED_BYTES)
        text_format(text, " The program had %s of RAM page-locked.",
                    show_bytes(to_u64(pinned)).text);
}
