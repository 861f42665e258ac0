/* tally.c: see tally.h. It must not judge; call nothing idle that would not have gone back in
 * another mode; nor say that memory was why a program crashed: a signal does not tell. */
#include "judge/tally.h"
#include "judge/fact_rows.def"
#include "judge/cause.h"
#include "judge/webui.h"
#include "judge/who.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void count_refusals(struct tally *tally, const struct stats_file *record) {
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = record->refusals[i];
        tally->granted += refusal->granted == 1;
        if (refusal->granted)
            continue;
        tally->failed++;
        tally->went_on += refusal->reported == VRAMGC_WENT_ON;
        tally->failed_hosts += refusal->cause == VRAMGC_CAUSE_HOST;
        tally->failed_others += refusal->cause != VRAMGC_CAUSE_HOST && !refusal->reported;
        tally->failed_refusal = refusal_to_tell(tally->failed_refusal, refusal);
        if (tally->failed_refusal == refusal)
            tally->failed_in = record;
    }
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
static bool tally_much_idle(const struct vramgc_device_stats *stats) {
    double idle = (double)held_by_pytorch(stats) - (double)stats->live_bytes.peak;
    return idle >= (double)VERDICT_IDLE_BYTES &&
           idle >= VERDICT_IDLE_SHARE * (double)stats->held_bytes.peak;
}

/* By a fault's signal, or by SIGKILL. Other signals, and Ctrl-C, are somebody's wish. */
static bool is_crash(const struct stats_file *record) {
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS,
                                  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS};
    bool killed = record->state == PROCESS_KILLED && !record->file->stop_asked;
    for (size_t i = 0; killed && i < ARRAY_LENGTH(signals); i++)
        if (record->signal == signals[i])
            return true;
    return false;
}

/* A signal ended it, and nobody noted which: its starter was killed, too, or was not `vramgc run`.
 * Not of one that was told to stop, or whose Python had ended, as at Ctrl-C; nor of a process that
 * another of the records started: that may have ended it, as Python's terminate() does. */
static bool has_vanished(const struct stats_file *record, struct stats_file *const *records,
                         size_t count) {
    const struct vramgc_file *file = record->file;
    bool told = file->stop_asked || file->python_ended_ns;
    for (size_t i = 0; i < count; i++)
        told = told || records[i]->file->pid == file->parent_pid;
    return record->state == PROCESS_VANISHED && !told;
}

static void count_device(struct tally *tally, const struct stats_file *record, size_t index) {
    const struct vramgc_device_stats *s = &record->file->devices[index].stats;
    tally->ooms += (double)s->ooms;
    tally->unseen_ooms += (double)s->refused_blocks;
    tally->would_reclaims += (double)s->would_reclaims;
    tally->reclaimed_bytes += (double)s->reclaimed_bytes;
    tally->reclaim_ns += (double)s->reclaim_ns;
    tally->blocks_seen = tally->blocks_seen || s->block_allocs > 0 || s->reserved_bytes.peak > 0;
    /* The driver's pool, and nothing else, is why no pages follow live blocks (mode_table.c); or
     * they were not wanted. */
    bool pool = record->file->driver_pool || (stats_file_mode(record->file) == MODE_FLUSH &&
                                              s->pool_bytes.peak > s->live_bytes.peak / 2);
    tally->pool_idle = tally->pool_idle || (pool && s->block_allocs > 0 && tally_much_idle(s));
    count_highest(tally, record, &record->file->devices[index]);
}

struct tally tally_of(struct stats_file *const *records, size_t count) {
    struct tally tally = {.records = records, .count = count};
    for (size_t i = 0; i < count; i++) {
        count_refusals(&tally, records[i]);
        for (size_t j = 0; j < records[i]->action_count; j++)
            if (!records[i]->actions[j]->observed)
                tally.most_net_bytes =
                    max_u64(tally.most_net_bytes, records[i]->actions[j]->net_bytes);
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

/* ---- idle memory ---- */

static bool gives_back(const struct stats_file *record) {
    enum option_mode mode = stats_file_mode(record->file);
    return mode == MODE_FLUSH || mode == MODE_COMPACT;
}

/* The user's own setting, or its default. */
static double percent_set(const struct stats_file *record) {
    const char *threshold = stats_file_setting(record, "threshold");
    return threshold ? strtod(threshold, NULL) : 0;
}

/* The same in a mode that gives memory back. 0: not so. */
static double threshold_of(const struct stats_file *record) {
    double percent = percent_set(record);
    bool holds = gives_back(record) && percent > 0 && percent <= 100 &&
                 stats_file_setting_is(record, "lowvram", "0");
    return holds ? percent : 0;
}

/* There idle memory goes back in no mode. */
static bool below_threshold(const struct tally *tally) {
    struct derived used = derived_figure(DERIVED_utilisation_peak_percent, tally->highest);
    double threshold = threshold_of(tally->highest_in);
    return threshold > 0 && used.known && used.value < threshold;
}

/* Before Python's end, which leaves all of it idle. */
static struct last_moment last_of(const struct tally *tally) {
    return last_moment_of(tally->highest, tally->highest_in->state == PROCESS_RUNNING);
}

/* Without what PyTorch has given up in mode flush: that goes by itself a second later. */
static uint64_t held_at_last(const struct tally *tally) {
    const struct vramgc_device_stats *last = last_of(tally).stats;
    bool flush = stats_file_mode(tally->highest_in->file) == MODE_FLUSH;
    return min_u64(minus_u64(last->held_bytes.current, last->other_bytes.current),
                   flush ? last->reserved_bytes.current : UINT64_MAX);
}

static uint64_t idle_at_last(const struct tally *tally) {
    return minus_u64(held_at_last(tally), last_of(tally).stats->live_bytes.current);
}

static bool much_at_peak(const struct tally *tally) {
    return tally->highest && tally_much_idle(&tally->highest->stats);
}

static bool much_at_last(const struct tally *tally) {
    double held = (double)last_of(tally).stats->held_bytes.current;
    uint64_t idle = idle_at_last(tally);
    return idle >= VERDICT_IDLE_BYTES && (double)idle >= VERDICT_IDLE_SHARE * held;
}

static bool was_full_at_last(const struct tally *tally) {
    struct division last = last_of(tally).division;
    double percent = percent_set(tally->highest_in);
    double used = (double)minus_u64(last.total_bytes, last.free_bytes);
    return last.known && percent > 0 && used * 100 >= percent * (double)last.total_bytes;
}

/* From a card that is full vramgc gives it back a second later. */
bool idle_is_much(const struct tally *tally) {
    return tally->highest &&
           (much_at_peak(tally) ||
            (much_at_last(tally) && was_full_at_last(tally) && !gives_back(tally->highest_in)));
}

/* Compact needs at its peak the live memory, and all that shares a page with it. Each is known at
 * its own peak, so it may be a little less than that. */
static uint64_t needed_bytes(const struct vramgc_device_stats *stats) {
    uint64_t held = held_by_pytorch(stats), live = min_u64(held, stats->live_bytes.peak);
    return live + min_u64(held - live, stats->page_waste_bytes.peak);
}

void facts_of_idle(struct facts *facts, const struct tally *tally, bool pool_told) {
    const struct vramgc_device_stats *highest = &tally->highest->stats;
    bool never = tally->reclaimed_bytes <= 0 && below_threshold(tally);
    bool some = much_at_last(tally) || (never && idle_at_last(tally) >= VERDICT_IDLE_BYTES / 2);
    bool full = was_full_at_last(tally);
    TEXT_OVER(text, percent, 16);
    text_format(&text, "%.4g", threshold_of(tally->highest_in));
    facts_begin(facts, IDLE);
    facts_of_program(facts, tally->highest_in);
#include "judge/idle_facts.def"
}

/* ---- a program that crashed ---- */

/* Of page-locked memory that is worth a word, as of idle memory (VERDICT_IDLE_BYTES). */
#define LEAST_LOCKED_BYTES (512 * MEBIBYTE)

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

void facts_of_ram(struct facts *facts, const struct vramgc_file *file) {
    const struct vramgc_host_look *look = &file->host.latest;
    bool limited = look->limit_bytes && look->limit_bytes < look->total_bytes;
    double pinned = 0;
    for (size_t i = 0; i < file->device_count; i++)
        pinned += (double)file->devices[i].stats.pinned_bytes.current;
    fact_some(facts, "locked", pinned >= (double)LEAST_LOCKED_BYTES ? to_u64(pinned) : 0);
    if (!look->time_ns)
        return;
    uint64_t room = limited ? minus_u64(look->limit_bytes, look->group_bytes) : UINT64_MAX;
    room = min_u64(room, look->available_bytes);
    fact_word(facts, "RAM", room < look->total_bytes / 32 ? "RAM" : NULL);
    fact_word(facts, "time", show_clock(look->time_ns).text);
    fact_bytes(facts, "ram", ram_bytes(look));
    fact_some(facts, "swapped", look->swap_bytes);
    if (limited) {
        fact_bytes(facts, "group limit", look->limit_bytes);
        fact_bytes(facts, "counted", look->group_bytes);
    } else if (look->total_bytes)
        fact_bytes(facts, "left", look->available_bytes);
}

/* Linux sends SIGKILL by itself where RAM runs out. */
void facts_of_crash(struct facts *facts, const struct stats_file *crashed) {
    const struct vramgc_host *host = &crashed->file->host;
    bool by_linux = host->lack == VRAMGC_LACK_KILLED;
    bool known = crashed->signal == SIGKILL || (!crashed->signal && by_linux);
    facts_begin(facts, !known                           ? 0
                       : by_linux                       ? KILLED_BY_LINUX
                       : host->lack == VRAMGC_LACK_NONE ? KILLED_BY_OTHERS
                                                        : KILLED);
    facts_of_ram(facts, crashed->file);
}

/* ---- without need ---- */

/* Again and again: as often as growth has to show (cause.c). Next to nothing idle: compact with
 * --lowvram held 1.01 to 1.06 times what was live (tests/lab/FIGURES.md). */
enum { LEAST_TIMES = 8 };
#define MOST_HELD_OVER_LIVE 1.1

/* PyTorch itself frees segments where one of these is set; neither touches expandable ones. */
static bool by_pytorch(const struct vramgc_file *file) {
    const char *conf = file->alloc_conf;
    return !stats_file_is_expandable(file) &&
           (strstr(conf, "garbage_collection_threshold") || strstr(conf, "max_split_size_mb"));
}

/* Below the threshold PyTorch's cache stays as it is, and a program that empties it does so for
 * something. */
static bool held_little(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    bool little =
        stats_file_mode(file) == MODE_COMPACT && stats_file_setting_is(record, "lowvram", "1");
    for (size_t i = 0; i < file->device_count; i++) {
        struct derived ratio = derived_figure(DERIVED_held_over_live_weighted, &file->devices[i]);
        little = little && (!ratio.known || ratio.value <= MOST_HELD_OVER_LIVE);
    }
    return little;
}

static void add_emptied(struct facts *facts, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    const char *advice = webui_of(file)->collects;
    if (!advice || file->process.cache_empties < LEAST_TIMES || by_pytorch(file) ||
        !held_little(record))
        return;
    fact_count(facts, "emptied", file->process.cache_empties);
    fact_word(facts, "collect less", advice);
}

/* Less is not worth a sentence: chosen, as twice the idle memory that is (VERDICT_IDLE_BYTES). And
 * beside the large blocks there may be small ones: chosen. */
#define LEAST_PINNED_BYTES ((uint64_t)1 << 30)
enum { SMALL_SHARE = 64 };

/* One that knows it not, before 2.13, raises an error for it. 2.13 itself then hands out freed
 * blocks that are smaller than what is asked for: 150 MiB for 200 (PyTorch's pull request 192722).
 * It is not vramgc's choice, because a freed block no longer serves for a little more: 112 buffers
 * of 16 to 127 MiB, one after the other, held 8,008 MiB instead of 464. */
#define ROUNDING_SETTING "pinned_max_round_threshold_mb"

static uint64_t rounded_bytes(const struct vramgc_file *file) {
    uint64_t most = 0;
    for (size_t i = 0; i < file->device_count; i++) {
        const struct vramgc_device_stats *s = &file->devices[i].stats;
        uint64_t rounded = s->pinned_rounded_bytes.peak, all = s->pinned_bytes.peak;
        if (rounded > LEAST_PINNED_BYTES && minus_u64(all, rounded) <= all / SMALL_SHARE)
            most = max_u64(most, rounded);
    }
    return most;
}

/* PyTorch rounds each page-locked tensor up to a power of two, and asks the driver for that: what
 * the program asked is not known. */
static void add_rounded(struct facts *facts, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    uint64_t bytes = rounded_bytes(file);
    if (!bytes || !*file->torch_version || strstr(file->alloc_conf, ROUNDING_SETTING) ||
        fact_text(facts, "rounded", strlen("rounded")))
        return;
    fact_bytes(facts, "rounded", bytes);
    fact_word(facts, "unrounded",
              stats_file_torch_from(file, 14) ? "PYTORCH_ALLOC_CONF=" ROUNDING_SETTING ":1" : NULL);
}

static bool are_near(uint64_t one, uint64_t other) {
    return max_u64(one, other) - min_u64(one, other) <= max_u64(one, other) / 16;
}

/* Jobs after the first that moved as much and needed as much: how many. What is more at rest than
 * half of a job's models was not moved back. */
static size_t jobs_that_move(const struct stats_file *record, size_t device, uint64_t *needed) {
    size_t count = 0;
    for (size_t i = 0; i < record->job_count; i++) {
        const struct vramgc_job *job = record->jobs[i];
        uint64_t all_bytes = job->moved_bytes + job->peak_live_bytes;
        if (job->device != device || job->number < 2)
            continue;
        if ((count && !are_near(all_bytes, *needed)) || job->moved_bytes < VERDICT_IDLE_BYTES ||
            job->live_bytes > job->moved_bytes / 2)
            return 0;
        *needed = max_u64(*needed, all_bytes);
        count++;
    }
    return count;
}

/* Without need where the card had room for all of them, and for what others had at most. */
static void add_moved(struct facts *facts, const struct stats_file *record, size_t index) {
    enum { LEAST_JOBS = 3 };
    const struct vramgc_device *device = &record->file->devices[index];
    const struct vramgc_owners *peak = &device->owners_at_peak;
    uint64_t needed = 0;
    size_t jobs = jobs_that_move(record, index, &needed);
    for (uint64_t i = 0; i < peak->count; i++) /* they are in both */
        if (strcmp(record->file->sites[peak->list[i].site].phase, "model move") == 0)
            needed = minus_u64(needed, peak->list[i].bytes);
    if (jobs < LEAST_JOBS ||
        needed + needed / 16 + device->stats.others_bytes.peak > device->total_bytes)
        return;
    fact_count(facts, "moves", jobs);
    fact_bytes(facts, "all models", needed);
    fact_word(facts, "keep them", webui_of(record->file)->keeps);
}

/* ---- all that was done ---- */

/* From 2.13 on PyTorch writes a warning for each request that the card refused, where segments are
 * expandable: whoever reads it shall know that it is no fault of its own. */
static bool is_warned_of(const struct stats_file *record) {
    return record && stats_file_torch_from(record->file, 13) &&
           stats_file_is_expandable(record->file);
}

static bool is_warned(const struct tally *tally) {
    if (!tally->failed_in)
        return is_warned_of(tally->highest_in);
    struct oom oom = oom_of(tally->failed_in, tally->failed_refusal);
    return is_warned_of(tally->failed_in) && oom.of_pytorch && oom.device->stats.block_allocs &&
           !oom.of_cuda && oom.cause != VRAMGC_CAUSE_LIMIT && oom.cause != VRAMGC_CAUSE_HOST;
}

static void add_reclaims(struct facts *facts, const struct tally *tally) {
    struct figure once = show_bytes(tally->most_net_bytes),
                  in_all = show_bytes(to_u64(tally->reclaimed_bytes));
    if (tally->reclaimed_bytes <= 0)
        return;
    fact_word(facts, tally->most_net_bytes ? "in all" : "in vain", in_all.text);
    fact_word(facts, "once", strcmp(once.text, in_all.text) != 0 ? once.text : NULL);
    fact_word(facts, "time", show_time(to_u64(tally->reclaim_ns)).text);
}

static void add_giver(struct facts *facts, const struct stats_file *record) {
    TEXT_OVER(text, words, 200);
    shared_card_say_giver(&text, record->file);
    fact_word(facts, "got", words);
}

/* Where the card was nearly full, or too small: there what one short time needed beyond all else is
 * what mattered. */
static void add_short_peak(struct facts *facts, const struct vramgc_device *device,
                           const struct stats_file *record) {
    const double nearly_full_percent = 80; /* VRAMGC_THRESHOLD as it is by default */
    struct derived used = derived_figure(DERIVED_utilisation_peak_percent, device);
    struct short_peak peak = short_peak_of(device, record->elapsed_ns);
    TEXT_OVER(text, words, 200);
    if (!peak.stands_alone || !used.known || used.value < nearly_full_percent)
        return;
    const struct vramgc_site *site = who_works_at_peak(record->file, device, &peak);
    fact_bytes(facts, "short peak", peak.live_bytes);
    fact_bytes(facts, "else", peak.else_bytes);
    fact_word(facts, "then", show_clock(peak.time_ns).text);
    if (site)
        text_format(&text, "%s%s%s", who_name(site).text, *site->phase ? ", " : "", site->phase);
    fact_word(facts, "worker", words);
}

static void add_highest(struct facts *facts, const struct tally *tally) {
    const struct vramgc_file *file = tally->highest_in->file;
    const struct vramgc_device_stats *stats = &tally->highest->stats;
    bool much_beside = stats->other_bytes.peak >= VERDICT_IDLE_BYTES;
#include "judge/peak_facts.def"
}

static void add_uncached(struct facts *facts, const struct vramgc_file *file) {
    for (size_t i = 0; i < file->device_count; i++)
        if (library_is_uncached(file, &file->devices[i])) {
            fact_word(facts, "uncached", "PYTORCH_NO_CUDA_MEMORY_CACHING");
            fact_bytes(facts, "code", file->devices[i].stats.other_bytes.peak);
        }
}

void facts_of_run(struct facts *facts, const struct tally *tally) {
    TEXT_OVER(text, words, 60);
    facts_begin(facts, RUN);
    fact_if(facts, tally->impossible, IMPOSSIBLE);
    fact_if(facts, is_warned(tally), WARNED);
    fact_if(facts, tally->failed_in, TOLD);
    fact_if(facts, !tally->blocks_seen, UNSEEN);
    add_reclaims(facts, tally);
    for (size_t i = 0; i < tally->count; i++) {
        add_emptied(facts, tally->records[i]);
        add_rounded(facts, tally->records[i]);
        add_giver(facts, tally->records[i]);
        add_uncached(facts, tally->records[i]->file);
        fact_word(facts, "stopped", tally->records[i]->file->stop_asked ? "stopped" : NULL);
        for (size_t j = 0; j < tally->records[i]->file->device_count; j++)
            add_moved(facts, tally->records[i], j);
    }
    fact_word(facts, "failed", tally->crashed ? "had failed" : "failed");
    if (tally->highest) {
        add_highest(facts, tally);
        add_short_peak(facts, tally->highest, tally->highest_in);
    }
    text_format(&text, "%s time%s", show_count(to_u64(tally->would_reclaims)).text,
                tally->would_reclaims < 2 ? "" : "s");
    fact_word(facts, "times", tally->would_reclaims > 0 ? words : NULL);
    text = TEXT_IN(words);
    text_format(&text, "%s refused %s", show_count(tally->granted).text,
                tally->granted < 2 ? "request was" : "requests were");
    fact_word(facts, "granted", tally->granted > 0 ? words : NULL);
}
