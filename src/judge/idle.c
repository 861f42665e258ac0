/* idle.c: see idle.h. Memory that PyTorch kept and no tensor used: at the peak, which tells how
 * large the card had to be, and at rest, when others could have it. It must advise nothing that
 * would not have helped here. */
#include "judge/idle.h"
#include "base/base.h"
#include "read/derived.h"
#include "read/units.h"

#include <stdlib.h>
#include <string.h>

/* Whether the mode is one that gives memory back. */
static bool gives_back(const struct stats_file *record) {
    enum option_mode mode = stats_file_mode(record->file);
    return mode == MODE_FLUSH || mode == MODE_COMPACT;
}

static bool has_graphs(const struct tally *tally) {
    return tally->highest_in->file->process.captures > 0;
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

/* Mode auto waits for nothing but a proof (govern/mode_table.c). */
static bool waits_for_proof(const struct tally *tally) {
    return tally->highest && tally->highest_in->file->needs_proof == 1;
}

/* Before Python's end, which leaves all of it idle. */
static struct last_moment last_of(const struct tally *tally) {
    return last_moment_of(tally->highest, tally->highest_in->state == PROCESS_RUNNING);
}

static uint64_t held_at_last(const struct tally *tally) {
    const struct vramgc_device_stats *last = last_of(tally).stats;
    return minus_u64(last->held_bytes.current, last->other_bytes.current);
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

/* By what was refused, though it came when asked for again, or by how full the card was then. */
static bool was_short_at_last(const struct tally *tally) {
    struct division last = last_of(tally).division;
    double percent = percent_set(tally->highest_in);
    double used = (double)minus_u64(last.total_bytes, last.free_bytes);
    return tally->granted > 0 ||
           (last.known && percent > 0 && used * 100 >= percent * (double)last.total_bytes);
}

bool idle_is_much(const struct tally *tally) {
    return tally->highest &&
           (much_at_peak(tally) || (much_at_last(tally) && was_short_at_last(tally)));
}

static void say_how_much(struct text *text, const struct tally *tally) {
    const struct vramgc_device_stats *highest = &tally->highest->stats;
    if (much_at_peak(tally))
        text_format(text, "PyTorch kept much idle memory: %s for %s of tensors.",
                    show_bytes(held_by_pytorch(highest)).text,
                    show_bytes(highest->live_bytes.peak).text);
    else
        text_format(text, "PyTorch kept much idle memory %s: %s for %s of tensors.",
                    last_of(tally).name, show_bytes(held_at_last(tally)).text,
                    show_bytes(last_of(tally).stats->live_bytes.current).text);
}

void idle_say(struct text *text, const struct tally *tally) {
    say_how_much(text, tally);
    if (tally->pool_idle)
        text_add(text, " The driver's pool behind cudaMallocAsync keeps what is freed.");
    else if (has_graphs(tally))
        text_add(text, IDLE_GRAPHS_KEEP);
    else if (threshold_of(tally->highest_in) > 0)
        text_format(text,
                    " vramgc takes it back only while more than %.4g %% of the card is in "
                    "use (VRAMGC_THRESHOLD).",
                    threshold_of(tally->highest_in));
}

void idle_say_todo(struct text *text, const struct tally *tally) {
    if (tally->pool_idle && waits_for_proof(tally))
        text_add(text, "Run `vramgc prove`, a minute: then a pool of vramgc keeps only what is "
                       "live.");
    else if (tally->pool_idle)
        text_add(text, "Run with --async pages: a pool of vramgc, which keeps only what is live.");
    else if (has_graphs(tally))
        ; /* nothing is known to help */
    else if (threshold_of(tally->highest_in) > 0)
        text_add(text,
                 "Use `vramgc run --lowvram` if other programs need it: idle memory goes back at "
                 "once; no model is moved to RAM.");
    else if (stats_file_mode(tally->highest_in->file) == MODE_OBSERVE)
        text_add(text, much_at_peak(tally)
                           ? "Run without --mode observe: vramgc then gives idle memory back."
                           : "Run with --lowvram, and without --mode observe: vramgc then gives "
                             "idle memory back at once.");
}

/* Said of an out-of-memory, too: more was held than was needed, by a setting. */
static void say_held(struct text *text, const struct tally *tally, bool told_of_pool) {
    if (!much_at_peak(tally))
        return;
    if (tally->pool_idle && !told_of_pool)
        text_add(text, " The driver's pool keeps much idle memory; one of vramgc (--async pages) "
                       "does not.");
    else if (!tally->pool_idle && !has_graphs(tally) && threshold_of(tally->highest_in) > 0)
        text_format(text,
                    " Up to %s were held for %s of tensors: below %.4g %% of the card "
                    "(VRAMGC_THRESHOLD) vramgc leaves idle memory alone; `vramgc run --lowvram` "
                    "does not, and moves no model to RAM.",
                    show_bytes(held_by_pytorch(&tally->highest->stats)).text,
                    show_bytes(tally->highest->stats.live_bytes.peak).text,
                    threshold_of(tally->highest_in));
}

static void say_let_be(struct text *text, const struct tally *tally, bool never) {
    if (stats_file_mode(tally->highest_in->file) == MODE_OBSERVE)
        text_add(text, " Without --mode observe, and with --lowvram, it goes back at once.");
    else
        text_format(text,
                    " The card was %s over %.4g %% full, so vramgc left it alone. With "
                    "--lowvram idle memory goes back at once.",
                    never ? "never" : "then not", threshold_of(tally->highest_in));
}

/* Who runs it for the first time would not learn what vramgc was there for. Where much more was
 * idle say_held or say_idle tells. On a card with room it is no harm. */
static void say_untouched(struct text *text, const struct tally *tally) {
    if (!tally->highest || much_at_peak(tally) || has_graphs(tally) || tally->pool_idle)
        return;
    bool may = threshold_of(tally->highest_in) > 0 ||
               stats_file_mode(tally->highest_in->file) == MODE_OBSERVE;
    bool never = tally->reclaimed_bytes <= 0 && below_threshold(tally);
    if (!may || (!much_at_last(tally) && (!never || idle_at_last(tally) < VERDICT_IDLE_BYTES / 2)))
        return;
    text_format(text, " %s stayed idle %s.", show_bytes(idle_at_last(tally)).text,
                last_of(tally).name);
    say_let_be(text, tally, never);
}

void idle_say_note(struct text *text, const struct tally *tally, bool told, bool told_of_pool) {
    if (told)
        return;
    say_held(text, tally, told_of_pool);
    say_untouched(text, tally);
}

/* What compact needs at its peak is live memory, and what shares a page with it. Each is known at
 * its own peak, so it may be a little less than that. */
void idle_say_unproven(struct text *text, const struct tally *tally) {
    if (!waits_for_proof(tally) || has_graphs(tally) || !much_at_peak(tally))
        return;
    const struct vramgc_device_stats *stats = &tally->highest->stats;
    uint64_t held = held_by_pytorch(stats);
    uint64_t live = min_u64(held, stats->live_bytes.peak);
    uint64_t needed = live + min_u64(held - live, stats->page_waste_bytes.peak);
    text_format(text, " Mode compact%s would have needed %s at most where PyTorch held %s; ",
                below_threshold(tally) ? " with --lowvram" : "", show_bytes(needed).text,
                show_bytes(held).text);
    text_add(text, "`vramgc prove` tests for a minute whether this card can, and turns it on.");
}
