/* verdict.c: see verdict.h. */
#include "cli/verdict.h"
#include "cli/derived.h"
#include "cli/units.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* What all records say together. Sums are double: the figures of a damaged file must not wrap. */
struct tally {
    double refusals, ooms, unasked, reclaims, would_reclaims, reclaimed_bytes, reclaim_ns;
    size_t listed; /* refusals in the files' lists; and of them: */
    size_t fragmented, full, rounded, granted;
    bool blocks_seen;
    bool pool_idle; /* the driver's, where one of our own would have stood in */
    const struct vramgc_device_stats *highest; /* most held where blocks were seen, or NULL */
    const struct stats_file *highest_in;       /* the record it is from */
};

const char *verdict_name(enum verdict_code code) {
    static const char *const names[VERDICT_CODES] = {
        [VERDICT_NONE] = "none",
        [VERDICT_UNKNOWN] = "unknown",
        [VERDICT_OK] = "ok",
        [VERDICT_IDLE] = "idle",
        [VERDICT_FRAGMENTATION] = "fragmentation",
        [VERDICT_FULL] = "full",
        [VERDICT_LIMIT] = "limit",
    };
    return names[code];
}

double stats_file_held_peak(const struct stats_file *record) {
    double held = 0;
    for (size_t i = 0; i < record->file->device_count; i++)
        held += (double)record->file->devices[i].stats.held_bytes.peak;
    return held;
}

size_t largest_record(struct stats_file *const *records, size_t count) {
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        if (stats_file_held_peak(records[i]) > stats_file_held_peak(records[largest]))
            largest = i;
    return largest;
}

static void count_refusals(struct tally *tally, const struct stats_file *record) {
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = record->refusals[i];
        tally->listed++;
        if (refusal->granted)
            tally->granted++;
        else if (refusal->cause == VRAMGC_REFUSAL_FRAGMENTED)
            tally->fragmented++;
        else if (refusal->cause == VRAMGC_REFUSAL_ROUNDED)
            tally->rounded++;
        else
            tally->full++;
    }
}

static void count_highest(struct tally *tally, const struct stats_file *record,
                          const struct vramgc_device_stats *stats) {
    if (stats->block_allocs == 0 ||
        (tally->highest && stats->held_bytes.peak <= tally->highest->held_bytes.peak))
        return;
    tally->highest = stats;
    tally->highest_in = record;
}

/* Each at its own peak: the timeline has a point every tenth of a second or less often, and what
 * lives shorter (a VAE's decoding) is what the memory was needed for. */
static bool much_idle(const struct vramgc_device_stats *stats) {
    double held = (double)held_by_pytorch(stats);
    double idle = held - (double)stats->allocated_bytes.peak;
    return idle >= (double)VERDICT_IDLE_BYTES && idle >= VERDICT_IDLE_SHARE * held;
}

/* The driver's pool, and nothing else, is why no pages follow live blocks (govern/mode_table.c). */
static bool pool_idle(const struct stats_file *record, const struct vramgc_device_stats *stats) {
    return record->file->driver_pool && stats->block_allocs > 0 && much_idle(stats);
}

static void count_device(struct tally *tally, const struct stats_file *record, size_t index) {
    const struct vramgc_device_stats *s = &record->file->devices[index].stats;
    tally->refusals += (double)s->refusals;
    tally->ooms += (double)s->ooms;
    tally->reclaims += (double)s->reclaims;
    tally->would_reclaims += (double)s->would_reclaims;
    tally->reclaimed_bytes += (double)s->reclaimed_bytes;
    tally->reclaim_ns += (double)s->reclaim_ns;
    tally->blocks_seen = tally->blocks_seen || s->block_allocs > 0 || s->reserved_bytes.peak > 0;
    tally->pool_idle = tally->pool_idle || pool_idle(record, s);
    count_highest(tally, record, s);
}

/* Out-of-memory errors before which PyTorch asked nobody for memory, because of a memory fraction
 * or because an expandable segment has fewer addresses: each of the others has its refusal, or one
 * of ours that it did not take for one, which is an internal error. */
static double unasked_of(const struct vramgc_file *file) {
    double unasked = -(double)file->process.internal_errors;
    for (size_t i = 0; i < file->device_count; i++)
        unasked += (double)file->devices[i].stats.ooms - (double)file->devices[i].stats.refusals;
    return unasked > 0 ? unasked : 0;
}

static struct tally tally_of(struct stats_file *const *records, size_t count) {
    struct tally tally = {0};
    for (size_t i = 0; i < count; i++) {
        count_refusals(&tally, records[i]);
        tally.unasked += unasked_of(records[i]->file);
        for (size_t j = 0; j < records[i]->file->device_count; j++)
            count_device(&tally, records[i], j);
    }
    return tally;
}

static enum verdict_code judge(const struct tally *tally, size_t count) {
    if (count == 0)
        return VERDICT_NONE;
    if (tally->fragmented > 0)
        return VERDICT_FRAGMENTATION;
    if (tally->refusals == 0 && tally->unasked > 0)
        return VERDICT_LIMIT;
    if (tally->full + tally->rounded > 0 || tally->ooms > 0)
        return VERDICT_FULL;
    if (!tally->blocks_seen)
        return VERDICT_UNKNOWN;
    return tally->highest && much_idle(tally->highest) ? VERDICT_IDLE : VERDICT_OK;
}

static void say_ooms(struct text *text, const struct tally *tally) {
    text_format(text, " PyTorch reported out of memory %s %s", show_count(to_u64(tally->ooms)).text,
                tally->ooms < 2 ? "time" : "times");
    if (tally->unasked > 0)
        text_format(
            text,
            ", %s of them without asking the driver: the request was larger than the card, or "
            "than a limit that the program has set "
            "(torch.cuda.set_per_process_memory_fraction)",
            tally->unasked < tally->ooms ? show_count(to_u64(tally->unasked)).text : "all");
    text_add(text, ".");
}

static void say_refused(struct text *text, const struct tally *tally, enum verdict_code code) {
    if (code == VERDICT_LIMIT)
        text_add(text, "The driver refused no request.");
    else if (code == VERDICT_FRAGMENTATION)
        text_format(text,
                    "Fragmentation cost you memory: %s of %s refused requests would have fitted "
                    "into free and idle memory, but not into one piece of it.",
                    show_count(tally->fragmented).text, show_count(tally->listed).text);
    else
        text_add(text, "The card was full: live memory and other programs left too little.");
    if (tally->rounded > 0)
        text_format(text,
                    " %s of %s refused requests failed only because PyTorch rounds up: an "
                    "expandable segment grows by 20 MiB (by 2 MiB for small blocks), and the last "
                    "step must fit whole.",
                    show_count(tally->rounded).text, show_count(tally->listed).text);
    if (tally->ooms > 0)
        say_ooms(text, tally);
}

static void say_fine(struct text *text, const struct tally *tally, enum verdict_code code) {
    text_add(text, code == VERDICT_IDLE ? "No allocation failed, but PyTorch held much idle memory"
                                        : "No allocation failed");
    const struct vramgc_device_stats *highest = tally->highest;
    if (highest && highest->other_bytes.peak >= VERDICT_IDLE_BYTES)
        text_format(text,
                    ": %s at the peak; PyTorch held up to %s for %s of live memory, other "
                    "libraries up to %s",
                    show_bytes(highest->held_bytes.peak).text,
                    show_bytes(held_by_pytorch(highest)).text,
                    show_bytes(highest->allocated_bytes.peak).text,
                    show_bytes(highest->other_bytes.peak).text);
    else if (highest)
        text_format(text, ": %s at the peak for %s of live memory",
                    show_bytes(highest->held_bytes.peak).text,
                    show_bytes(highest->allocated_bytes.peak).text);
    text_add(text, ".");
}

static void say_reclaims(struct text *text, const struct tally *tally) {
    if (tally->reclaims > 0)
        text_format(text, " %s %s released %s in %s.", show_count(to_u64(tally->reclaims)).text,
                    tally->reclaims < 2 ? "reclaim" : "reclaims",
                    show_bytes(to_u64(tally->reclaimed_bytes)).text,
                    show_time(to_u64(tally->reclaim_ns)).text);
    if (tally->would_reclaims > 0)
        text_format(text, " Mode observe: flush would have made %s %s.",
                    show_count(to_u64(tally->would_reclaims)).text,
                    tally->would_reclaims < 2 ? "reclaim" : "reclaims");
    if (tally->granted > 0)
        text_format(text, " %s refused %s granted when asked again.",
                    show_count(tally->granted).text,
                    tally->granted < 2 ? "request was" : "requests were");
}

/* Mode auto waits for nothing but a proof (govern/mode_table.c). */
static bool waits_for_proof(const struct tally *tally) {
    return tally->highest && strstr(tally->highest_in->file->mode_why, "`vramgc prove`");
}

static void say_pool(struct text *text, const struct tally *tally) {
    if (tally->pool_idle)
        text_add(text, " The driver's pool behind cudaMallocAsync keeps freed memory.");
    if (tally->pool_idle && !waits_for_proof(tally))
        text_add(text, " VRAMGC_ASYNC=pages replaces it by a pool that does not.");
}

/* What compact needs at its peak is live memory, and what shares a page with it. Each is known at
 * its own peak, so it may be a little less than that. */
static void say_unproven(struct text *text, const struct tally *tally) {
    if (!waits_for_proof(tally))
        return;
    const struct vramgc_device_stats *stats = tally->highest;
    uint64_t held = held_by_pytorch(stats);
    uint64_t live = min_u64(held, stats->allocated_bytes.peak);
    uint64_t needed = live + min_u64(held - live, stats->page_waste_bytes.peak);
    text_format(text, " Mode compact would have needed %s at most where PyTorch held %s; ",
                show_bytes(needed).text, show_bytes(held).text);
    text_add(text, "`vramgc prove` finds out in a minute whether this card bears it, and turns it "
                   "on.");
}

/* Whether the mode is one that gives memory back. */
static bool gives_back(const struct stats_file *record) {
    return strcmp(record->file->mode, "flush") == 0 || strcmp(record->file->mode, "compact") == 0;
}

/* Why it was held, where it is by the user's own setting, or its default. */
static void say_threshold(struct text *text, const struct tally *tally) {
    const char *threshold = stats_file_setting(tally->highest_in, "threshold");
    const char *lowvram = stats_file_setting(tally->highest_in, "lowvram");
    double percent = threshold ? strtod(threshold, NULL) : 0;
    if (!tally->pool_idle && gives_back(tally->highest_in) && percent > 0 && percent <= 100 &&
        lowvram && strcmp(lowvram, "0") == 0)
        text_format(text,
                    " vramgc reclaims idle memory only while more than %.4g %% of the card is in "
                    "use (VRAMGC_THRESHOLD), with VRAMGC_LOWVRAM=1 always.",
                    percent);
}

struct verdict verdict_of(struct stats_file *const *records, size_t count) {
    struct tally tally = tally_of(records, count);
    struct verdict verdict = {.code = judge(&tally, count)};
    struct text text = TEXT_IN(verdict.text);
    switch (verdict.code) {
    case VERDICT_NONE:
        text_add(&text, "No process used CUDA.");
        break;
    case VERDICT_UNKNOWN:
        text_add(&text, "The program used CUDA, but vramgc saw no memory of PyTorch's allocator.");
        break;
    case VERDICT_FRAGMENTATION:
    case VERDICT_FULL:
    case VERDICT_LIMIT:
        say_refused(&text, &tally, verdict.code);
        break;
    default:
        say_fine(&text, &tally, verdict.code);
    }
    say_reclaims(&text, &tally);
    if (verdict.code == VERDICT_IDLE)
        say_threshold(&text, &tally);
    say_pool(&text, &tally);
    say_unproven(&text, &tally);
    return verdict;
}
