/* diff_which.c: see diff_which.h. First of what `vramgc diff` says, for many read no more. It must
 * not compare different work without saying so. */
#include "cli/diff_which.h"
#include "judge/tally.h"
#include "judge/verdict.h"
#include "read/derived.h"
#include "read/units.h"
#include "show/summary_lines.h"
#include "base/base.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

uint64_t diff_ooms(const struct stats_file *side) {
    struct stats_file *record = (struct stats_file *)side; /* which tally_of() only reads */
    struct tally tally = tally_of(&record, 1);
    return tally_all_went_on(&tally) ? 0 : tally_ooms(&tally);
}

/* Why a program may not have done all of its work; "" where nothing says so. */
static struct figure show_failure(const struct stats_file *record) {
    if (record->state == PROCESS_KILLED)
        return show_words("was killed by %s", show_signal(record->signal).text);
    if (record->state == PROCESS_EXITED && record->code != 0)
        return show_words("ended with exit %d", record->code);
    return show_words("%s", record->state == PROCESS_RUNNING ? "still runs" : "");
}

/* By how it ended, and by how much it had done by then. False: there is nothing to say. */
static bool write_less(const struct sides *sides, bool of_b) {
    const struct stats_file *record = of_b ? sides->b : sides->a,
                            *other = of_b ? sides->a : sides->b;
    const double much_less = 0.75; /* chosen: the same work hands out about the same blocks */
    struct figure failure = show_failure(record);
    TEXT_OVER(text, line, 400);
    uint64_t blocks = ON_ALL_CARDS(record->file, block_allocs),
             blocks_of_other = ON_ALL_CARDS(other->file, block_allocs);
    bool less = (double)blocks < much_less * (double)blocks_of_other;
    if (!less && (!*failure.text || *show_failure(other).text))
        return false;
    bool ran_out = verdict_of(&(struct stats_file *){(struct stats_file *)record}, 1).ran_out;
    text_format(&text, "%s %s", of_b ? "B" : "A", ran_out ? "ran out of memory and " : "");
    text_add(&text, *failure.text ? failure.text : "did less work");
    if (!less)
        text_format(&text, " after %s", show_time(record->elapsed_ns).text);
    if (less)
        text_format(&text, ": PyTorch had made %s tensors in %s, in %s %s in %s",
                    show_count(blocks).text, show_time(record->elapsed_ns).text, of_b ? "A" : "B",
                    show_count(blocks_of_other).text, show_time(other->elapsed_ns).text);
    text_format(&text, ". These figures compare different work%s.",
                *failure.text && !ran_out ? ": run it again, to its end" : "");
    summary_wrapped_at(sides->out, 0, "", line);
    return true;
}

/* ---- which held less ---- */

/* Of the cards that both have, the one on which most was held; VRAMGC_MAX_DEVICES: there is none.
 */
static size_t card_to_tell(const struct sides *sides) {
    size_t found = VRAMGC_MAX_DEVICES;
    double most = -1;
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        const struct vramgc_device *a = &sides->a->file->devices[i];
        const struct vramgc_device *b = &sides->b->file->devices[i];
        double held = (double)a->stats.held_bytes.peak + (double)b->stats.held_bytes.peak;
        if (a->present && b->present && held > most)
            found = i, most = held;
    }
    return found;
}

/* "12 % less", or "as much"; a whole percentage, and more than one run differs from the next. */
static struct figure show_less(uint64_t a, uint64_t b) {
    double percent = a > 0 ? ((double)b - (double)a) / (double)a * 100 : b > 0 ? 100 : 0;
    if (fabs(percent) < 2)
        return (struct figure){"as much"};
    if (percent > 200 || !a)
        return (struct figure){"much more"};
    return show_words("%.0f %% %s", fabs(percent), percent < 0 ? "less" : "more");
}

static void say_ooms(struct text *text, const struct sides *sides) {
    uint64_t a = diff_ooms(sides->a), b = diff_ooms(sides->b), less = min_u64(a, b);
    if (a == b)
        return;
    text_format(text, "%s ran out of memory %sx, %s ", a > b ? "A" : "B",
                show_count(max_u64(a, b)).text, a > b ? "B" : "A");
    text_add(text, less ? show_count(less).text : "never");
    text_add(text, less ? "x. " : ". ");
}

/* Of the whole run, in the words of the report: peaks and ends may be the same and this not. */
static void say_average(struct text *text, const struct vramgc_device *a,
                        const struct vramgc_device *b) {
    const double thousand = 1000;
    struct derived x = derived_figure(DERIVED_held_over_live_time, a),
                   y = derived_figure(DERIVED_held_over_live_time, b);
    struct figure less = show_less(to_u64(x.value * thousand), to_u64(y.value * thousand));
    if (x.known && y.known && strcmp(less.text, "as much") != 0)
        text_format(text, " For each byte of tensors B held %s on average.", less.text);
}

static void say_held_less(struct text *text, const struct sides *sides, size_t index) {
    const struct vramgc_device *a = &sides->a->file->devices[index];
    const struct vramgc_device *b = &sides->b->file->devices[index];
    struct last_moment x = last_moment_of(a, sides->a->state == PROCESS_RUNNING),
                       y = last_moment_of(b, sides->b->state == PROCESS_RUNNING);
    struct figure live = show_less(a->stats.live_bytes.peak, b->stats.live_bytes.peak);
    text_format(text, "B held %s at the peak",
                show_less(a->stats.held_bytes.peak, b->stats.held_bytes.peak).text);
    if (strcmp(x.name, y.name) == 0)
        text_format(text, ", %s %s",
                    show_less(x.stats->held_bytes.current, y.stats->held_bytes.current).text,
                    x.name);
    if (strcmp(live.text, "as much") == 0)
        text_add(text, ", for the same tensors.");
    else
        text_format(text, ", for %s in tensors.", live.text);
    say_average(text, a, b);
}

/* Of different work it would mislead. */
void diff_which(const struct sides *sides) {
    size_t index = card_to_tell(sides);
    TEXT_OVER(text, line, 400);
    bool less = write_less(sides, false);
    less = write_less(sides, true) || less;
    if (!less)
        say_ooms(&text, sides);
    if (!less && index < VRAMGC_MAX_DEVICES)
        say_held_less(&text, sides, index);
    if (text.length)
        summary_wrapped_at(sides->out, 0, "", line);
    if (index < VRAMGC_MAX_DEVICES) { /* a model that fits on one may not fit on the other */
        struct figure a = show_bytes(sides->a->file->devices[index].total_bytes),
                      b = show_bytes(sides->b->file->devices[index].total_bytes);
        if (strcmp(a.text, b.text) != 0)
            fprintf(sides->out, "The cards differ: %s in A, %s in B.\n", a.text, b.text);
    }
    if (strcmp(sides->a->file->command_line, sides->b->file->command_line) != 0)
        fputs("The two commands differ: so may the work.\n", sides->out);
    fputc('\n', sides->out);
}
