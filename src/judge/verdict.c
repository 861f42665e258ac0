/* verdict.c: see verdict.h. It must not decide what was the cause, nor what helps. */
#include "judge/verdict.h"
#include "judge/fact_rows.def"
#include "judge/cause.h"
#include "judge/cause_words.h"
#include "judge/growers.h"
#include "judge/sentences.h"
#include "judge/tally.h"
#include "judge/who.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* Less idle memory explains no difference that a reader would see. */
#define IDLE_TOLD_BYTES (64 * MEBIBYTE)

const char *verdict_name(const struct verdict *verdict) {
    static const char *const names[VERDICT_OOM] = {
        [VERDICT_NONE] = "none",   [VERDICT_UNKNOWN] = "unknown", [VERDICT_OK] = "ok",
        [VERDICT_GROWS] = "grows", [VERDICT_IDLE] = "idle",       [VERDICT_CRASHED] = "crashed",
    };
    return verdict->kind == VERDICT_OOM ? cause_names[verdict->oom].verdict : names[verdict->kind];
}

double stats_file_held_peak(const struct stats_file *record) {
    double held = 0;
    for (size_t i = 0; i < record->file->device_count; i++)
        held += (double)record->file->devices[i].stats.held_bytes.peak;
    return held;
}

static bool any_grows(const struct tally *tally) {
    bool grows = false;
    for (size_t i = 0; i < tally->count; i++)
        grows = grows || record_grows(tally->records[i]);
    return grows;
}

static enum verdict_kind kind_of_run(const struct tally *tally) {
    if (tally->count == 0)
        return VERDICT_NONE;
    if (tally->failed || tally->ooms > 0)
        return VERDICT_OOM; /* until more is known */
    if (tally->crashed && tally->crashed->state == PROCESS_KILLED)
        return VERDICT_CRASHED;
    if (!tally->blocks_seen)
        return VERDICT_UNKNOWN;
    if (any_grows(tally))
        return VERDICT_GROWS;
    return idle_is_much(tally) ? VERDICT_IDLE : VERDICT_OK;
}

static void say_times(struct verdict *verdict, struct text *text, const char *what,
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
    say_times(verdict, text, tally_all_went_on(tally) ? "Memory was refused" : "OUT OF MEMORY",
              count);
    text_format(text, ", %sat %s", count > 1 ? "last " : "", show_clock(r->time_ns).text);
    verdict->clock_length = text->length - verdict->clock;
    text_add(text, ": ");
    if (oom->of_context)
        text_add(text, "no room to begin with, for a CUDA context");
    else if (oom->of_cuda)
        text_add(text, "CUDA itself wanted some");
    else
        text_format(text, "%s wanted", show_bytes(r->request_bytes).text);
    if (site && !oom->of_context)
        text_format(text, " %s %s", oom->of_cuda ? "for" : "by", who_name(site).text);
    if (r->total_bytes && !oom->of_context)
        text_format(text, ", %s%s free", show_bytes(r->free_bytes).text,
                    r->cause == VRAMGC_CAUSE_HOST ? " of RAM" : "");
    if (oom->seen == VRAMGC_CAUSE_ROUNDED && r->free_bytes >= r->request_bytes)
        text_add(text, " (PyTorch takes 12 or 20 MiB at a time)");
    if (oom_tells_idle(oom))
        text_format(text, " and %s idle", show_bytes(r->idle_bytes).text);
    if (oom->record->file->device_count > 1 && oom->cause != VRAMGC_CAUSE_HOST)
        text_format(text, " on GPU %u", r->device);
    text_add(text, tally_all_went_on(tally)
                       ? ". The work went on at once without it, as PyTorch does "
                         "without a convolution's workspace, or a program that then "
                         "decodes in tiles."
                   : oom_program_went_on(oom) ? ". The program went on."
                                              : ".");
}

/* ---- of an out-of-memory ---- */

struct causes {
    size_t counts[VRAMGC_CAUSES], sum;
    bool prove_helps; /* against fragmentation, which is among them */
};

/* Only those count that the report calls an out-of-memory (is_told_with). */
static struct causes count_causes(const struct tally *tally, const struct oom *told) {
    struct causes causes = {0};
    for (size_t i = 0; i < tally->count; i++)
        for (size_t j = 0; j < tally->records[i]->refusal_count; j++) {
            const struct stats_file *record = tally->records[i];
            if (!is_told_with(told, record->refusals[j]))
                continue;
            enum vramgc_cause cause = cause_as_told(oom_of(record, record->refusals[j]).cause);
            causes.counts[cause]++;
            causes.sum++;
            causes.prove_helps = causes.prove_helps || (cause == VRAMGC_CAUSE_FRAGMENTED &&
                                                        record->file->needs_proof == 1);
        }
    return causes;
}

/* " This was the cause 2x, fragmentation 5x." Nothing where all were for that one. */
static void say_other_causes(struct text *text, const struct causes *causes, const struct oom *told,
                             uint64_t all) {
    const enum vramgc_cause this = cause_as_told(told->cause);
    if (causes->counts[this] == causes->sum)
        return;
    if (causes->sum < all) /* the list has room for no more */
        text_format(text, " Of the latest %zu this", causes->sum);
    else
        text_add(text, " This");
    text_format(text, " was the cause %zux", causes->counts[this]);
    for (size_t i = 0; i < VRAMGC_CAUSES; i++)
        if (i != this && causes->counts[i])
            text_format(text, ", %s %zux", cause_names[i].name, causes->counts[i]);
    text_add(text, ".");
}

/* Known beside the one that is told. */
static void add_tally(struct facts *facts, const struct tally *tally, const struct oom *told) {
    bool reported = told->refusal->reported;
    size_t gone_on = tally_all_went_on(tally) ? 0 : tally->went_on;
#include "judge/tally_facts.def"
}

/* Before memory runs out, too. */
static void say_grows(struct text *what, struct text *todo, const struct tally *tally,
                      bool on_card) {
    struct facts facts;
    facts_begin(&facts, RISES);
    for (size_t i = 0; i < tally->count; i++)
        facts_of_growth(&facts, tally->records[i], on_card);
    sentences_say(what, SAY_WHAT, &facts);
    sentences_say(todo, SAY_DO, &facts);
}

static void explain_oom(struct verdict *verdict, const struct tally *tally, struct text *note) {
    struct text what = TEXT_IN(verdict->what), sum = TEXT_IN(verdict->sum),
                cause = TEXT_IN(verdict->cause), todo = TEXT_IN(verdict->todo);
    struct facts facts;
    if (!tally->failed_refusal) { /* an older file, or more than its list holds */
        say_times(verdict, &what, "OUT OF MEMORY", tally_ooms(tally));
        text_add(&what, ". Nothing more is known of it.");
        return;
    }
    struct oom oom = oom_of(tally->failed_in, tally->failed_refusal);
    struct causes causes = count_causes(tally, &oom);
    facts_of_oom(&facts, &oom);
    add_tally(&facts, tally, &oom);
    fact_if(&facts, causes.prove_helps, PROVE_HELPS);
    say_oom(verdict, &what, tally, &oom);
    cause_say_sum(&sum, &oom);
    sentences_say(&cause, SAY_WHY, &facts);
    if (!oom.tries)
        say_other_causes(&cause, &causes, &oom, tally_ooms(tally));
    if (!tally_all_went_on(tally)) {
        verdict->oom = oom.cause;
    } else if (any_grows(tally)) {
        verdict->kind = VERDICT_GROWS;
        say_grows(&what, &todo, tally, true);
    } else {
        verdict->kind = VERDICT_OK;
    }
    if (verdict->kind != VERDICT_GROWS)
        sentences_say(&todo, SAY_DO, &facts);
    sentences_say(note, SAY_NOTE, &facts);
    crash_say(note, tally->crashed);
}

/* ---- of a run in which none was ---- */

/* Where memory ran out who had it then, where it did not who had it at the peak. */
static void say_most(struct text *text, const struct tally *tally) {
    if (!tally->failed_in)
        who_say_most(text, tally->highest_in, tally->highest, NULL);
    else if (tally->failed_refusal->cause != VRAMGC_CAUSE_HOST) {
        struct oom oom = oom_of(tally->failed_in, tally->failed_refusal);
        who_say_most(text, tally->failed_in, oom.device, tally->failed_refusal);
    }
}

static void judge_fine(struct verdict *verdict, const struct tally *tally) {
    struct text what = TEXT_IN(verdict->what), cause = TEXT_IN(verdict->cause),
                todo = TEXT_IN(verdict->todo);
    struct facts facts;
    bool seen = verdict->kind != VERDICT_UNKNOWN;
    facts_of_run(&facts, tally);
    sentences_say(&todo, SAY_DO, &facts);
    if (seen && !tally->crashed) /* else that comes first */
        say_grows(&what, &todo, tally, true);
    crash_say(&what, tally->crashed);
    sentences_say(&what, SAY_WHAT, &facts);
    if (seen && tally->crashed)
        say_grows(&what, &todo, tally, true);
    if (tally->crashed) {
        facts_of_crash(&facts, tally->crashed);
        sentences_say(&cause, SAY_WHY, &facts);
    }
    if (!cause.length && verdict->kind == VERDICT_IDLE) {
        facts_of_idle(&facts, tally, false);
        sentences_say(&cause, SAY_WHY, &facts);
        sentences_say(&todo, SAY_DO, &facts);
    }
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

/* Its peak is where memory ran out, and says no more than that. */
static bool rose_to_the_end(const struct tally *tally) {
    if (!tally->failed_in)
        return false;
    struct oom oom = oom_of(tally->failed_in, tally->failed_refusal);
    return oom.cause == VRAMGC_CAUSE_GROWTH || oom.load.site || oom.stayed_bytes;
}

/* Idle memory is told of here where the verdict is another one. */
static void say_beside(struct text *note, const struct verdict *verdict,
                       const struct tally *tally) {
    bool oom = verdict->kind == VERDICT_OOM;
    bool growth_told = verdict->kind == VERDICT_GROWS || verdict->kind == VERDICT_CRASHED;
    struct facts run, idle;
    facts_of_run(&run, tally);
    fact_if(&run, oom && rose_to_the_end(tally), GROWTH_TOLD);
    facts_begin(&idle, 0);
    if (tally->highest)
        facts_of_idle(&idle, tally, oom && verdict->oom == VRAMGC_CAUSE_POOL);
    sentences_say(note, SAY_NOTE, &run);
    if (verdict->kind != VERDICT_IDLE)
        sentences_say(note, SAY_NOTE, &idle);
    if (!growth_told)
        say_grows(note, note, tally, false);
    sentences_say(note, SAY_LAST, &run);
    sentences_say(note, SAY_LAST, &idle);
}

/* All of them are of one run; beside it there are so many of others. */
static struct verdict verdict_of_run(const struct tally *tally, size_t others) {
    struct verdict verdict = {.kind = kind_of_run(tally),
                              .ran_out = tally->failed_in && !tally_all_went_on(tally)};
    struct text note = TEXT_IN(verdict.note), most = TEXT_IN(verdict.most);
    if (verdict.kind == VERDICT_NONE)
        text_copy(verdict.what, sizeof verdict.what, "No process used CUDA.");
    else if (verdict.kind == VERDICT_OOM)
        explain_oom(&verdict, tally, &note);
    else
        judge_fine(&verdict, tally);
    say_most(&most, tally);
    say_beside(&note, &verdict, tally);
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
    struct tally tally = tally_of(of_run, together);
    struct verdict verdict = verdict_of_run(&tally, count - together);
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
