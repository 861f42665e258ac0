/* cause_words.c: see cause_words.h. It must not guess: owners are of the out-of-memory that is
 * told, and what was asked of a web UI is only what its command line says. */
#include "judge/cause_words.h"
#include "judge/fact_rows.def"
#include "judge/tally.h"
#include "judge/webui.h"
#include "judge/who.h"
#include "read/block_files.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"
#include "base/parse.h"

#include <string.h>

/* The parts of the sum by their names, and as they are shown: a part that is told elsewhere has the
 * same figure there. */
struct parts {
    size_t count, code, process; /* the last two: which part is that, the largest process */
    const char *names[VRAMGC_MAX_NEIGHBOURS + 8];
    uint64_t bytes[VRAMGC_MAX_NEIGHBOURS + 8];
    struct figure figures[VRAMGC_MAX_NEIGHBOURS + 8];
};

static void part_add(struct parts *parts, const char *name, uint64_t bytes) {
    parts->names[parts->count] = name;
    parts->bytes[parts->count++] = bytes;
}

static void add_processes(struct parts *parts, const struct oom *oom) {
    for (uint64_t i = 0; i < oom->sum.neighbour_count; i++) {
        const struct vramgc_neighbour *neighbour = &oom->device->neighbours.list[i];
        part_add(parts, *neighbour->name ? neighbour->name : "another process",
                 oom->sum.neighbour_bytes[i]);
    }
}

/* The driver's own part is known only where processes are told one by one. The free part stands in
 * the verdict, too, and may the idle one. */
static struct parts parts_of(const struct oom *oom) {
    const struct oom_sum *sum = &oom->sum;
    struct parts parts = {0};
    part_add(&parts, "live", sum->live_bytes);
    uint64_t whole = oom_tells_idle(oom) ? oom->refusal->idle_bytes : sum->idle_bytes;
    part_add(&parts, "idle", min_u64(whole, sum->idle_bytes));
    if (sum->idle_bytes > whole)
        part_add(&parts, "idle in pieces", sum->idle_bytes - whole);
    if (sum->step_bytes)
        part_add(&parts, "kept for a model's step", sum->step_bytes);
    parts.code = parts.count;
    if (sum->code_bytes)
        part_add(&parts,
                 library_is_uncached(oom->record->file, oom->device) ? "PyTorch, uncached"
                 : oom->of_aimdo                                     ? "DynamicVRAM's weights"
                                                                     : "libraries here",
                 sum->code_bytes);
    parts.process = parts.count; /* the driver's own, where none is known by name */
    add_processes(&parts, oom);
    bool told = oom->device->neighbours.own_bytes > 0 &&
                oom->device->neighbours.time_ns >= oom->refusal->time_ns;
    part_add(&parts, told ? "driver" : "others and driver", sum->rest_bytes);
    if (sum->headroom_bytes)
        part_add(&parts, "head-room", sum->headroom_bytes);
    part_add(&parts, "free", sum->free_bytes);
    show_parts(parts.bytes, parts.figures, parts.count, parts.count - 1);
    return parts;
}

void cause_say_sum(struct text *text, const struct oom *oom) {
    struct parts parts = parts_of(oom);
    if (!oom->sum.known || oom->of_context) /* the driver did not tell what was free */
        return;
    for (size_t i = 0; i < parts.count; i++)
        text_format(text, "%s%s %s", i ? " + " : "", parts.names[i], parts.figures[i].text);
    text_format(text, " = %s", show_bytes(oom->sum.total_bytes).text);
}

/* ---- who has the card ---- */

static void add_largest_process(struct facts *facts, const struct oom *oom) {
    TEXT_OVER(text, words, 120);
    const struct vramgc_neighbour *neighbour = &oom->device->neighbours.list[0];
    if (!oom->sum.neighbour_count)
        text_add(&text, "not known by name");
    else if (!*neighbour->name)
        text_format(&text, "pid %lu, name unknown", neighbour->pid);
    else
        text_format(&text, "%s, pid %lu", neighbour->name, neighbour->pid);
    fact_word(facts, "process", words);
    if (oom->sum.neighbour_count && !*neighbour->name)
        fact_word(facts, "nameless", words);
}

static void add_children(struct facts *facts, const struct oom *oom) {
    uint64_t count = 0, bytes = 0;
    for (uint64_t i = 0; i < oom->sum.neighbour_count; i++) {
        bool child = oom->device->neighbours.list[i].started_here == 1;
        count += child;
        bytes += child ? oom->sum.neighbour_bytes[i] : 0;
    }
    if (count < 2)
        return;
    fact_count(facts, "children", count);
    fact_bytes(facts, "their part", bytes);
}

static void add_neighbours(struct facts *facts, const struct oom *oom) {
    struct parts parts = parts_of(oom);
    bool known = oom->sum.neighbour_count > 0;
    fact_if(facts, oom->of_context && !known, NO_CONTEXT);
    fact_if(facts, known && oom->device->neighbours.list[0].started_here == 1, CHILD);
    fact_if(facts,
            oom->sum.neighbour_count > 1 &&
                oom->sum.neighbour_bytes[0] <
                    max_u64(oom->lacking_bytes, oom->sum.others_bytes / 2),
            SEVERAL);
    fact_if(facts, known && strstr(oom->device->neighbours.list[0].name, "ollama"), OLLAMA);
    add_largest_process(facts, oom);
    add_children(facts, oom);
    fact_bytes(facts, "others", oom->sum.others_bytes);
    fact_word(facts, "its part", parts.figures[parts.process].text);
    fact_word(facts, "code", parts.figures[parts.code].text);
}

/* Where all that the program had, and what it wanted, would have fitted; or that alone. CUDA counts
 * the fastest card first unless it is told to count as nvidia-smi does. */
static void add_other_card(struct facts *facts, const struct oom *oom) {
    const struct vramgc_other_card *card = &oom->device->other_card;
    const struct vramgc_refusal *r = oom->refusal;
    uint64_t needed = r->allocated_bytes + r->other_bytes + r->request_bytes;
    bool for_all = card->free_bytes >= needed;
    if (!card->time_ns || card->time_ns < r->time_ns || card->free_bytes < r->request_bytes)
        return;
    fact_word(facts, for_all ? "gpu" : "other gpu", show_unit(UNIT_ID, card->number).text);
    fact_word(facts, "its name", card->name);
    fact_bytes(facts, for_all ? "its free" : "spare", card->free_bytes);
}

/* ---- who asked, and what its web UI can ---- */

/* The transformers library moves its models by functions of its own, by which they are known. A
 * move by others does not tell of which model it is. */
static bool moves_encoder(const struct vramgc_site *site) {
    return strcmp(site->phase, "model move") == 0 &&
           (strcmp(site->file, "transformers/modeling_utils.py") == 0 ||
            strcmp(site->file, "transformers/core_model_loading.py") == 0);
}

/* Text encoders have so much of the card, while other work runs out of memory that would have
 * fitted without them. They are known only as models of the transformers library: most that a web
 * UI has are text encoders. */
static void add_text_encoder(struct facts *facts, const struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    const struct vramgc_owners *owners = &oom->device->owners_at_oom;
    const char *work = oom_asked_in(oom, "denoise") ? "denoising"
                       : oom_asked_in(oom, "VAE")   ? "the VAE"
                                                    : NULL;
    uint64_t bytes = 0;
    for (uint64_t i = 0; work && oom->of_pytorch && i < owners->count; i++)
        if (moves_encoder(&file->sites[owners->list[i].site]))
            bytes += owners->list[i].bytes;
    if (!bytes || bytes < oom->lacking_bytes)
        return;
    fact_bytes(facts, "encoder", bytes);
    fact_word(facts, "work", work);
}

/* A function of a language model, as transformers has one file for each. A text encoder of images
 * is one, too. */
static bool asks_for_text(const struct vramgc_site *site) {
    return strstr(site->file, "/modeling_") || strstr(site->function, "ForCausalLM.") ||
           site_is_cache(site);
}

/* By a name as attention has it everywhere: CrossAttention.forward, attn_processor.__call__. */
static bool attends(const struct vramgc_site *site) {
    return strcasestr(site->function, "attention") || strcasestr(site->function, "attn");
}

/* The scores for all of an image are as large as nothing else: they are wanted, or live. */
static void add_attention(struct facts *facts, const struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    const struct vramgc_site *site = who_asked(file, oom->refusal);
    const struct vramgc_owner *owner = oom->device->owners_at_oom.list;
    uint64_t large = oom->refusal->total_bytes / 4;
    site = site && oom->refusal->request_bytes >= large && attends(site) ? site : NULL;
    for (uint64_t i = 0; i < oom->device->owners_at_oom.count; i++, owner++) {
        const struct vramgc_site *of = &file->sites[owner->site];
        if (!owner->blocks || owner->bytes / owner->blocks < large || !attends(of) ||
            (site && site != of))
            continue;
        site = of;
        fact_bytes(facts, "scores", owner->bytes);
    }
    fact_word(facts, "attention", site ? who_short_name(site).text : NULL);
}

/* Of a function that is no part of an image's work: it does as much with each of a model's parts.
 */
static void add_row(struct facts *facts, const struct oom *oom) {
    const struct vramgc_owner *row = oom->row;
    const struct vramgc_site *site = row ? &oom->record->file->sites[row->site] : NULL;
    if (!row || *site->phase || oom->refusal->recorded)
        return;
    fact_if(facts, true, MORE_COMES);
    fact_word(facts, "maker", who_short_name(site).text);
    fact_count(facts, "so many", row->blocks);
}

/* Many pieces that stay, and then a request for as much as all of them: torch.cat(). */
static void add_joiner(struct facts *facts, const struct oom *oom) {
    enum { NEARLY = 32 };
    const struct vramgc_owners *owners = &oom->device->owners_at_oom;
    uint64_t wanted = oom->refusal->request_bytes;
    for (const struct vramgc_owner *of = owners->list; of < owners->list + owners->count; of++) {
        uint64_t differs = max_u64(of->bytes, wanted) - min_u64(of->bytes, wanted);
        const struct vramgc_site *site = &oom->record->file->sites[of->site];
        if (of->blocks < GROWERS_PIECES || differs > wanted / NEARLY || site_loads(site))
            continue;
        fact_word(facts, "joiner", who_short_name(site).text);
        fact_count(facts, "joined", of->blocks);
    }
}

static bool had_refusal(const struct stats_file *record, const struct vramgc_job *job) {
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *r = record->refusals[i];
        if (r->device == job->device && r->reported != VRAMGC_WENT_ON && !r->granted &&
            r->time_ns >= job->time_ns && r->time_ns <= job->time_ns + job->took_ns)
            return true;
    }
    return false;
}

/* The same program has done without an error; and with less, if that differs enough. */
static void add_jobs_before(struct facts *facts, const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    uint64_t most = 0, count = 0;
    for (size_t i = 0; i < oom->record->job_count; i++) {
        const struct vramgc_job *job = oom->record->jobs[i];
        if (!job_is_over(job, r->device, r->time_ns) || had_refusal(oom->record, job))
            continue;
        most = max_u64(most, job->peak_live_bytes);
        count++;
    }
    if (!count)
        return;
    fact_count(facts, "jobs before", count);
    fact_some(facts, "most before",
              r->allocated_bytes + r->request_bytes >= most + most / 8 ? most : 0);
}

static void add_part(struct facts *facts, const char *who, const char *amount,
                     const struct oom_part *part) {
    if (!part->site)
        return;
    fact_word(facts, who, who_short_name(part->site).text);
    fact_bytes(facts, amount, part->bytes);
}

/* ---- what VRAMGC_SPILL could have done ---- */

/* Later requests want up to three such tensors more, or PyTorch's steps of 20 MiB. Where it meets
 * the limit a VAE has less room for its tiles than without: Forge lost an image by 300 MiB. */
static uint64_t wanted_after(const struct oom *oom) {
    uint64_t next = max_u64(3 * oom->refusal->request_bytes, 64 * MEBIBYTE);
    return oom->lacking_bytes + min_u64(next, 2048 * MEBIBYTE);
}

/* Of those that the full card refused, the told one among them: how many, and what is wanted. */
static size_t wanted_at_most(const struct oom *told, uint64_t *bytes) {
    size_t count = 0;
    for (size_t i = 0; i < told->record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = told->record->refusals[i];
        if (refusal->device != told->refusal->device || !is_told_with(told, refusal))
            continue;
        struct oom oom = oom_of(told->record, refusal);
        if (cause_as_told(oom.cause) != cause_as_told(told->cause))
            continue;
        *bytes = max_u64(*bytes, wanted_after(&oom));
        count++;
    }
    return count;
}

/* Beyond what may lie with the host already, rounded up, for no digit of it is exact. Where the
 * host did not give what it may, to allow more is of no use. */
static void add_spill(struct facts *facts, const struct oom *oom) {
    uint64_t bytes = oom->lacking_bytes, allowed = 0, most = 0;
    const char *setting = stats_file_mode(oom->record->file) == MODE_COMPACT
                              ? stats_file_setting(oom->record, "spill")
                              : NULL; /* of no effect */
    TEXT_OVER(text, words, 32);
    if (setting)
        parse_size(setting, &allowed);
    if (!bytes || (allowed && oom->device->stats.spilled_bytes.peak + bytes <= allowed))
        return;
    fact_word(facts, "these", wanted_at_most(oom, &most) > 1 ? "these requests" : "this request");
    text_format(&text, "%luMiB", ((allowed + most) / MEBIBYTE + 50) / 50 * 50);
    fact_word(facts, "spill", words);
}

/* Most of what grows was made by autograd itself. */
static void add_backward(struct facts *facts, const struct oom *oom) {
    const struct vramgc_owners *grown = &oom->device->owners_grown;
    const struct vramgc_site *site = &oom->record->file->sites[grown->list[0].site];
    if (!grown->count || strcmp(site->phase, "backward") != 0)
        return;
    fact_word(facts, "trainer", who_short_name(site).text);
    const struct vramgc_owner *owner = who_find(&oom->device->owners_at_oom, grown->list[0].site);
    if (!owner || !owner->blocks)
        return;
    fact_count(facts, "made", owner->blocks);
    fact_bytes(facts, "made each", owner->bytes / owner->blocks);
}

static void add_growth(struct facts *facts, const struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    TEXT_OVER(text, words, 320);
    growth_say(&text, file, oom->device, &oom->growth);
    fact_word(facts, "growth", words);
    fact_count(facts, "graphs", growers_graphs(file));
    add_backward(facts, oom);
    if (!oom->pile)
        return;
    const struct vramgc_site *site = &file->sites[oom->pile->site];
    text = TEXT_IN(words);
    text_format(&text, "%s%s%s", who_short_name(site).text, *site->phase ? ", " : "", site->phase);
    fact_word(facts, "pile", words);
    fact_bytes(facts, "each", oom->pile->bytes / oom->pile->blocks);
    fact_count(facts, "pieces", oom->pile->blocks);
}

/* As it is by now: `vramgc set` may have changed it. */
static const char *name_of_limit(const struct vramgc_limits *limits) {
    return !limits->cap        ? "VRAMGC_HEADROOM"
           : !limits->headroom ? "VRAMGC_CAP"
                               : "VRAMGC_HEADROOM or VRAMGC_CAP";
}

/* As the line of the sum shows both: with idle bytes beside live ones in a page. */
static struct figure free_or_idle(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    return oom->sum.known ? show_sum(oom->sum.free_bytes, oom->sum.idle_bytes)
                          : show_sum(r->free_bytes, r->idle_bytes);
}

static void add_rows(struct facts *facts, const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    const struct vramgc_file *file = oom->record->file;
    const struct webui *webui = webui_of(file);
    const struct vramgc_site *site = who_asked(file, r);
    const char *backtrace = stats_file_setting(oom->record, "backtrace"),
               *library = library_name(file, r->library);
    uint64_t there = r->free_bytes + r->idle_bytes;
    struct figure card = show_bytes(r->total_bytes), wanted = show_bytes(r->request_bytes);
    bool foreign = oom->cause == VRAMGC_CAUSE_CODE && oom->device->stats.reserved_bytes.peak == 0;
    bool loads = !oom->failed.site && /* not at an image */
                 (oom->load.site || oom_asked_in(oom, "model move"));
    uint64_t stuck_bytes = minus_u64(oom->sum.idle_bytes, r->idle_bytes);
    bool moves_all = oom->load.site && strstr(oom->load.site->function, ".to");
    bool speaks = webui->retry && /* a script, not a web UI, which makes images */
                  site && asks_for_text(site) && !webui_draws(file);
    bool vae = oom_asked_in(oom, "VAE") ||
               (oom->failed.site && strcmp(oom->failed.site->phase, "VAE") == 0);
#include "judge/oom_facts.def"
}

/* Others may have come since the program began: what they had more at their most is not there. */
static void add_whatif(struct facts *facts, const struct oom *oom) {
    uint64_t most = 0, left;
    struct whatif_answer best;
    for (size_t i = 0; i < oom->device->sample_count; i++)
        most = max_u64(most, oom->device->samples[i].others_bytes);
    uint64_t more = minus_u64(most, others_least(oom->device));
    uint64_t card_bytes = minus_u64(oom->device->total_bytes, more);
    if (!whatif_answers_best(oom->record, card_bytes, &best, &left))
        return;
    fact_word(facts, "fitting", best.setting);
    fact_bytes(facts, "to spare", left);
}

void facts_of_oom(struct facts *facts, const struct oom *oom) {
    TEXT_OVER(text, words, 120);
    facts_begin(facts, 1u << oom->cause);
    facts_of_program(facts, oom->record);
    webui_say_pins_less(&text, oom->record->file);
    fact_word(facts, "pin less", words);
    add_rows(facts, oom);
    add_neighbours(facts, oom);
    add_jobs_before(facts, oom);
    facts_of_ram(facts, oom->record->file);
    add_growth(facts, oom);
    if (oom->refusal->reported == VRAMGC_WENT_ON)
        return; /* nothing has to be done */
    add_attention(facts, oom);
    add_joiner(facts, oom);
    add_row(facts, oom);
    add_part(facts, "loader", "loaded", &oom->load);
    add_part(facts, oom->at_once ? "sharer" : "failer", "failed", &oom->failed);
    add_part(facts, "keeper", "stale", &oom->stale);
    if (oom_program_went_on(oom))
        add_part(facts, "leaver", "remained", &oom->left);
    add_text_encoder(facts, oom);
    add_spill(facts, oom);
    add_other_card(facts, oom);
    add_whatif(facts, oom);
}
