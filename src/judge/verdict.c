/* verdict.c: see verdict.h. */
#include "judge/verdict.h"
#include "judge/cause.h"
#include "judge/cause_words.h"
#include "judge/tally.h"
#include "read/derived.h"
#include "judge/growers.h"
#include "judge/idle.h"
#include "judge/needless.h"
#include "judge/who.h"
#include "judge/other_ooms.h"
#include "read/units.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* Less idle memory explains no difference that a reader would see. */
#define IDLE_TOLD_BYTES (64 * MEBIBYTE)

const char *verdict_name(enum verdict_code code) {
    static const char *const names[VERDICT_CODES] = {
        [VERDICT_NONE] = "none",       [VERDICT_UNKNOWN] = "unknown",
        [VERDICT_OK] = "ok",           [VERDICT_GROWS] = "grows",
        [VERDICT_IDLE] = "idle",       [VERDICT_FRAGMENTATION] = "fragmentation",
        [VERDICT_FULL] = "full",       [VERDICT_LIMIT] = "limit",
        [VERDICT_POOL] = "pool",       [VERDICT_PRIVATE] = "private_pool",
        [VERDICT_GROWTH] = "growth",   [VERDICT_PROCESS] = "other_process",
        [VERDICT_CODE] = "other_code", [VERDICT_TOO_LARGE] = "too_large",
        [VERDICT_DRIVER] = "driver",   [VERDICT_HOST] = "host_memory",
        [VERDICT_CRASHED] = "crashed",
    };
    return names[code];
}

double stats_file_held_peak(const struct stats_file *record) {
    double held = 0;
    for (size_t i = 0; i < record->file->device_count; i++)
        held += (double)record->file->devices[i].stats.held_bytes.peak;
    return held;
}

static enum verdict_code code_of(enum oom_cause cause) {
    static const enum verdict_code codes[CAUSES] = {
        [CAUSE_UNKNOWN] = VERDICT_FULL,   [CAUSE_FRAGMENTATION] = VERDICT_FRAGMENTATION,
        [CAUSE_POOL] = VERDICT_POOL,      [CAUSE_PRIVATE] = VERDICT_PRIVATE,
        [CAUSE_SMALL] = VERDICT_FULL,     [CAUSE_ROUNDED] = VERDICT_FULL,
        [CAUSE_GROWTH] = VERDICT_GROWTH,  [CAUSE_PROCESS] = VERDICT_PROCESS,
        [CAUSE_CODE] = VERDICT_CODE,      [CAUSE_TOO_LARGE] = VERDICT_TOO_LARGE,
        [CAUSE_DRIVER] = VERDICT_DRIVER,  [CAUSE_LIMIT] = VERDICT_LIMIT,
        [CAUSE_RESERVED] = VERDICT_LIMIT, [CAUSE_HOST] = VERDICT_HOST,
    };
    return codes[cause];
}

static bool any_grows(struct stats_file *const *records, size_t count) {
    bool grows = false;
    for (size_t i = 0; i < count; i++)
        grows = grows || record_grows(records[i]);
    return grows;
}

static enum verdict_code judge(const struct tally *tally, struct stats_file *const *records,
                               size_t count) {
    if (count == 0)
        return VERDICT_NONE;
    if (tally->failed || tally->ooms > 0)
        return VERDICT_FULL; /* until more is known */
    if (tally->crashed && tally->crashed->state == PROCESS_KILLED)
        return VERDICT_CRASHED;
    if (!tally->blocks_seen)
        return VERDICT_UNKNOWN;
    if (any_grows(records, count))
        return VERDICT_GROWS;
    return idle_is_much(tally) ? VERDICT_IDLE : VERDICT_OK;
}

static void say_count(struct verdict *verdict, struct text *text, const char *what,
                      uint64_t count) {
    text_format(text, "%s ", what);
    verdict->count = text->length;
    text_format(text, "%sx", show_count(count).text);
    verdict->clock = text->length;
}

static void say_oom(struct verdict *verdict, struct text *text, const struct tally *tally,
                    const struct oom *oom) {
    uint64_t count = tally_ooms(tally);
    const struct vramgc_refusal *r = oom->refusal;
    const struct vramgc_site *site = who_asked(oom->record->file, r);
    say_count(verdict, text, tally_all_went_on(tally) ? "Memory was refused" : "OUT OF MEMORY",
              count);
    text_format(text, ", %sat %s", count > 1 ? "last " : "", show_clock(r->time_ns).text);
    verdict->clock_length = text->length - verdict->clock;
    text_add(text, ": ");
    if (oom->of_context)
        text_add(text, "no room to begin with, for a CUDA context");
    else
        text_format(text, "%s wanted", show_bytes(r->request_bytes).text);
    if (site && !oom->of_context)
        text_format(text, " by %s", who_name(site).text);
    if (r->total_bytes && !oom->of_context)
        text_format(text, ", %s free", show_bytes(r->free_bytes).text);
    if (oom->record->file->device_count > 1 && oom->cause != CAUSE_HOST)
        text_format(text, " on GPU %lu", (unsigned long)r->device);
    text_add(text, tally_all_went_on(tally)
                       ? ". The work went on at once without it, as PyTorch does "
                         "without a convolution's workspace, or a program that then "
                         "decodes in tiles."
                   : oom_program_went_on(oom) ? ". The program went on."
                                              : ".");
}

static void say_graphs(struct text *text, const struct oom *oom) {
    uint64_t wanted = minus_u64(oom->refusal->request_bytes, oom->sum.free_bytes);
    if (oom->cause != CAUSE_PRIVATE && oom->record->file->process.captures > 0 &&
        oom->sum.idle_bytes >= max_u64(wanted, 1))
        text_add(text, IDLE_GRAPHS_KEEP);
}

static void say_after(struct text *text, const struct tally *tally, const struct oom *oom) {
    say_graphs(text, oom);
    if (tally->failed_others > 0 && oom->refusal->reported)
        text_format(text, " Other code was refused memory, too: %zux.", tally->failed_others);
    if (tally->went_on > 0 && !tally_all_went_on(tally))
        text_format(text, " %zu more %s refused, and the work went on at once without %s.",
                    tally->went_on, tally->went_on == 1 ? "was" : "were",
                    tally->went_on == 1 ? "it" : "them");
    if (tally->failed_hosts > 0 && oom->cause != CAUSE_HOST)
        text_format(text, " The host refused page-locked memory, too: %zux.", tally->failed_hosts);
    if (tally->unseen_ooms == 0 && oom->refusal->reported &&
        oom->sum.idle_bytes >= IDLE_TOLD_BYTES &&
        stats_file_mode(oom->record->file) == MODE_COMPACT)
        text_add(text, " PyTorch's message counts idle memory as free.");
    if (tally->unseen_ooms > 0)
        text_format(
            text, " PyTorch's own counter says %s: it leaves out those that vramgc raised for it.",
            show_count(to_u64(tally->ooms - tally->unseen_ooms)).text);
}

/* The file has no entry for it: an older one, or more than its list holds. */
static void say_oom_alone(struct verdict *verdict, struct text *text, const struct tally *tally) {
    say_count(verdict, text, "OUT OF MEMORY", tally_ooms(tally));
    text_add(text, ". Nothing more is known of it.");
}

/* Of the first process that there is something to say of. */
static bool say_first(struct text *text, bool say(struct text *, const struct stats_file *),
                      struct stats_file *const *records, size_t count) {
    size_t i = 0;
    while (i < count && !say(text, records[i]))
        i++;
    return i < count;
}

/* Before memory runs out, too. */
static bool say_growth(struct text *text, const struct stats_file *record) {
    for (size_t i = 0; i < record->file->device_count; i++) {
        const struct vramgc_device *device = &record->file->devices[i];
        struct oom_growth growth = growth_of(record, device);
        if (!growth.grows)
            continue;
        text_add(text, text->length ? " " : "");
        cause_say_growth(text, "Memory grows", record->file, device, &growth);
        return true;
    }
    return false;
}

/* On the card, and in RAM. */
static void say_grows(struct text *what, struct text *todo, struct stats_file *const *records,
                      size_t count) {
    if (say_first(what, say_growth, records, count))
        text_add(todo, CAUSE_FIND_KEPT);
    if (say_first(what, host_growth_say, records, count))
        say_first(todo, host_growth_say_todo, records, count);
}

static void explain(struct verdict *verdict, const struct tally *tally,
                    struct stats_file *const *records, size_t count, struct text *note) {
    struct text what = TEXT_IN(verdict->what), sum = TEXT_IN(verdict->sum),
                cause = TEXT_IN(verdict->cause), todo = TEXT_IN(verdict->todo);
    if (!tally->failed_refusal) {
        say_oom_alone(verdict, &what, tally);
        return;
    }
    struct oom oom = oom_of(tally->failed_in, tally->failed_refusal);
    verdict->code = tally_all_went_on(tally) ? VERDICT_OK : code_of(oom.cause);
    say_oom(verdict, &what, tally, &oom);
    cause_say_sum(&sum, &oom);
    cause_say(&cause, &oom);
    other_ooms_say(&cause, records, count, &oom, tally_ooms(tally));
    if (verdict->code == VERDICT_OK && any_grows(records, count)) {
        verdict->code = VERDICT_GROWS;
        say_grows(&what, &todo, records, count);
    } else {
        cause_say_todo(&todo, &oom);
        other_ooms_say_todo(&todo, records, count, &oom);
    }
    say_after(note, tally, &oom);
    crash_say(note, tally->crashed);
}

static void say_highest(struct text *text, const struct tally *tally) {
    const struct vramgc_device_stats *highest = &tally->highest->stats;
    const char *most = library_of_most(tally->highest_in->file, tally->highest);
    struct figure live = show_bytes(highest->live_bytes.peak);
    text_format(text, ": %s held at the peak", show_bytes(highest->held_bytes.peak).text);
    if (highest->other_bytes.peak < VERDICT_IDLE_BYTES) {
        text_format(text, " for %s of tensors", live.text);
        return;
    }
    text_format(text, "; PyTorch held up to %s for %s of live memory, other libraries up to %s",
                show_bytes(held_by_pytorch(highest)).text, live.text,
                show_bytes(highest->other_bytes.peak).text);
    if (most)
        text_format(text, ", most of it %s", most);
}

static void say_fine(struct text *text, const struct tally *tally) {
    size_t before = text->length;
    crash_say(text, tally->crashed);
    text_format(text, "%sNo allocation %s", text->length ? " " : "",
                text->length > before ? "had failed" : "failed");
    if (tally->highest)
        say_highest(text, tally);
    text_add(text, ".");
}

/* From 2.13 on PyTorch writes a warning for each request that the card refused, where segments are
 * expandable: whoever reads it shall know that it is no fault of its own. */
#define WARNING " PyTorch's warning \"mapping failed with OOM\" "

static bool is_warned_of(const struct stats_file *record) {
    return record && stats_file_torch_from(record->file, 13) &&
           stats_file_is_expandable(record->file);
}

static void say_warning(struct text *text, const struct tally *tally) {
    if (!is_warned_of(tally->failed_in))
        return;
    struct oom oom = oom_of(tally->failed_in, tally->failed_refusal);
    if (oom.of_pytorch && oom.cause != CAUSE_LIMIT && oom.cause != CAUSE_HOST)
        text_add(text, WARNING "tells of the same, and of no other fault.");
}

static void say_granted(struct text *text, const struct tally *tally) {
    bool warned = !tally->failed_in && is_warned_of(tally->highest_in);
    text_format(text, " %s refused %s granted when asked again%s.", show_count(tally->granted).text,
                tally->granted < 2 ? "request was" : "requests were",
                warned ? ":" WARNING "means no more" : "");
}

/* More than ever was there can go back in all: some had come back meanwhile. */
static void say_reclaims(struct text *text, const struct tally *tally) {
    struct figure once = show_bytes(tally->most_net_bytes),
                  in_all = show_bytes(to_u64(tally->reclaimed_bytes));
    if (tally->reclaimed_bytes > 0) {
        text_add(text, " vramgc gave back ");
        if (!tally->most_net_bytes)
            text_format(text, "%s, and each time as much came back meanwhile", in_all.text);
        else if (strcmp(once.text, in_all.text) != 0)
            text_format(text, "up to %s at a time, %s in all as memory came and went", once.text,
                        in_all.text);
        else
            text_add(text, once.text);
        text_format(text, ". That took %s.", show_time(to_u64(tally->reclaim_ns)).text);
    }
    if (tally->would_reclaims > 0)
        text_format(text, " Mode observe: flush would have given memory back %s time%s.",
                    show_count(to_u64(tally->would_reclaims)).text,
                    tally->would_reclaims < 2 ? "" : "s");
    if (tally->granted > 0)
        say_granted(text, tally);
    say_warning(text, tally);
}

/* Where the card was nearly full, or too small: there what one short time needed beyond all else is
 * what mattered. */
static void say_short_peak(struct text *text, const struct tally *tally) {
    const double nearly_full_percent = 80; /* VRAMGC_THRESHOLD as it is by default */
    if (!tally->highest)
        return;
    struct derived used = derived_figure(DERIVED_utilisation_peak_percent, tally->highest);
    struct short_peak peak = short_peak_of(tally->highest, tally->highest_in->elapsed_ns);
    if (!peak.stands_alone || !used.known || used.value < nearly_full_percent)
        return;
    const struct vramgc_site *site =
        who_works_at_peak(tally->highest_in->file, tally->highest, &peak);
    text_format(text, " The peak was short: %s were live around %s, %s at most in all other time",
                show_bytes(peak.live_bytes).text, show_clock(peak.time_ns).text,
                show_bytes(peak.else_bytes).text);
    if (site)
        text_format(text, "; the largest part beside models was of %s%s%s", who_name(site).text,
                    *site->phase ? ", " : "", site->phase);
    text_add(text, ".");
}

/* Where memory ran out who had it then, where it did not who had it at the peak. */
static void say_most(struct text *text, const struct tally *tally) {
    if (!tally->failed_in)
        who_say_most(text, tally->highest_in, tally->highest, false);
    else if (tally->failed_refusal->cause != VRAMGC_REFUSAL_HOST)
        who_say_most(text, tally->failed_in, oom_of(tally->failed_in, tally->failed_refusal).device,
                     true);
}

static void judge_fine(struct verdict *verdict, const struct tally *tally,
                       struct stats_file *const *records, size_t count) {
    struct text what = TEXT_IN(verdict->what), cause = TEXT_IN(verdict->cause),
                todo = TEXT_IN(verdict->todo);
    if (!tally->crashed) /* else that comes first */
        say_grows(&what, &todo, records, count);
    say_fine(&what, tally);
    if (tally->crashed)
        say_grows(&what, &todo, records, count);
    crash_say_cause(&cause, tally->crashed);
    if (!cause.length && verdict->code == VERDICT_IDLE) {
        idle_say(&cause, tally);
        idle_say_todo(&todo, tally);
    }
}

static void say_unknown(struct verdict *verdict, const struct tally *tally) {
    struct text what = TEXT_IN(verdict->what), cause = TEXT_IN(verdict->cause);
    crash_say(&what, tally->crashed);
    text_format(&what, "%sThe program used CUDA, but vramgc saw no memory of PyTorch's allocator.",
                what.length ? " " : "");
    crash_say_cause(&cause, tally->crashed);
}

size_t verdict_record(struct stats_file *const *records, size_t count) {
    struct tally tally = tally_of(records, count);
    size_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        if (records[i] == tally.failed_in)
            return i;
        if (stats_file_held_peak(records[i]) > stats_file_held_peak(records[largest]))
            largest = i;
    }
    return largest;
}

/* Without `vramgc run` it is known of parents and children. */
static bool is_same_run(const struct vramgc_file *a, const struct vramgc_file *b) {
    return *a->run_id || *b->run_id
               ? strcmp(a->run_id, b->run_id) == 0
               : a->pid == b->pid || a->pid == b->parent_pid || b->pid == a->parent_pid;
}

static bool say_giver(struct text *text, const struct stats_file *record) {
    char words[200];
    struct text giver = TEXT_IN(words);
    bool any = shared_card_say_giver(&giver, record->file);
    if (any)
        text_format(text, " The program %s.", words);
    return any;
}

/* All of them are of one run; beside it there are so many of others. */
static struct verdict verdict_of_run(struct stats_file *const *records, size_t count,
                                     size_t others) {
    struct tally tally = tally_of(records, count);
    struct verdict verdict = {.code = judge(&tally, records, count),
                              .ran_out = tally.failed_in && !tally_all_went_on(&tally)};
    struct text note = TEXT_IN(verdict.note);
    if (verdict.code == VERDICT_NONE)
        text_copy(verdict.what, sizeof verdict.what, "No process used CUDA.");
    else if (verdict.code == VERDICT_UNKNOWN)
        say_unknown(&verdict, &tally);
    else if (verdict.code == VERDICT_FULL)
        explain(&verdict, &tally, records, count, &note);
    else
        judge_fine(&verdict, &tally, records, count);
    if (tally.impossible)
        text_add(&note, " The program asked to share PyTorch's memory with another process, or to "
                        "map it at a second place: mode compact cannot, --mode flush can.");
    struct text most = TEXT_IN(verdict.most);
    say_most(&most, &tally);
    say_reclaims(&note, &tally);
    say_first(&note, say_giver, records, count);
    if (verdict.code != VERDICT_GROWTH) /* whose peak is where it ended */
        say_short_peak(&note, &tally);
    idle_say_note(&note, &tally, verdict.code == VERDICT_IDLE, verdict.code == VERDICT_POOL);
    if (verdict.code != VERDICT_GROWS && verdict.code != VERDICT_CRASHED)
        say_first(&note, host_growth_say_all, records, count);
    say_first(&note, pinned_say, records, count);
    say_first(&note, needless_say, records, count);
    idle_say_unproven(&note, &tally);
    if (others > 0)
        text_format(&note, " Processes of other runs, of which this says nothing: %zu.", others);
    memmove(verdict.note, verdict.note + strspn(verdict.note, " "),
            strlen(verdict.note) + 1 - strspn(verdict.note, " "));
    return verdict;
}

struct verdict verdict_of(struct stats_file *const *records, size_t count) {
    struct stats_file **of_run = calloc(count + 1, sizeof *of_run);
    size_t told = count > 0 ? verdict_record(records, count) : 0, together = 0;
    for (size_t i = 0; of_run && i < count; i++)
        if (i == told || is_same_run(records[told]->file, records[i]->file))
            of_run[together++] = records[i];
    struct verdict verdict = verdict_of_run(of_run, together, count - together);
    verdict.record = told;
    free(of_run);
    return verdict;
}

static void add_sentence(struct text *text, const char *heading, const char *sentence) {
    if (*sentence)
        text_format(text, "%s%s%s", text->length ? " " : "", heading, sentence);
}

void verdict_write(struct text *text, const struct verdict *verdict) {
    add_sentence(text, "", verdict->what);
    add_sentence(text, "Cause: ", verdict->cause);
    add_sentence(text, "Do: ", verdict->todo);
    add_sentence(text, "Card: ", verdict->sum);
    text_add(text, *verdict->sum ? "." : "");
    add_sentence(text, "Most: ", verdict->most);
    text_add(text, *verdict->most ? "." : "");
    add_sentence(text, "", verdict->note);
}
