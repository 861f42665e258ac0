/* cause_words.c: see cause_words.h. The first line of each text must do for somebody who has never
 * heard of fragmentation. */
#include "judge/cause_words.h"
#include "judge/growers.h"
#include "judge/who.h"
#include "judge/spill_words.h"
#include "judge/text_encoder.h"
#include "read/units.h"
#include "judge/webui.h"
#include "base/base.h"

#include <string.h>

/* The parts of the sum by their names, and as they are shown: a part that is told elsewhere has the
 * same figure there. */
struct parts {
    size_t count, code, process; /* the last two: which part is that, the largest process */
    const char *names[VRAMGC_MAX_NEIGHBOURS + 7];
    uint64_t bytes[VRAMGC_MAX_NEIGHBOURS + 7];
    struct figure figures[VRAMGC_MAX_NEIGHBOURS + 7];
};

static void add_part(struct parts *parts, const char *name, uint64_t bytes) {
    parts->names[parts->count] = name;
    parts->bytes[parts->count++] = bytes;
}

static void add_neighbours(struct parts *parts, const struct oom *oom) {
    for (uint64_t i = 0; i < oom->sum.neighbour_count; i++) {
        const struct vramgc_neighbour *neighbour = &oom->device->neighbours.list[i];
        add_part(parts, *neighbour->name ? neighbour->name : "another process",
                 oom->sum.neighbour_bytes[i]);
    }
}

/* What the driver needs beside processes is known only where these are told one by one. What is
 * free stands in the verdict, too. */
static struct parts parts_of(const struct oom *oom) {
    const struct oom_sum *sum = &oom->sum;
    struct parts parts = {0};
    add_part(&parts, "live", sum->live_bytes);
    add_part(&parts, "idle", sum->idle_bytes);
    if (sum->step_bytes)
        add_part(&parts, "kept for a model's step", sum->step_bytes);
    parts.code = parts.count;
    if (sum->code_bytes)
        add_part(&parts, oom->of_aimdo ? "DynamicVRAM's weights" : "libraries here",
                 sum->code_bytes);
    parts.process = parts.count; /* the driver's own, where none is known by name */
    add_neighbours(&parts, oom);
    bool told = oom->device->neighbours.own_bytes > 0 &&
                oom->device->neighbours.time_ns >= oom->refusal->time_ns;
    add_part(&parts, told ? "driver" : "others and driver", sum->rest_bytes);
    if (sum->headroom_bytes)
        add_part(&parts, "head-room", sum->headroom_bytes);
    add_part(&parts, "free", sum->free_bytes);
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

static struct figure show_name(const struct oom *oom) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    const struct vramgc_neighbour *neighbour = &oom->device->neighbours.list[0];
    if (!oom->sum.neighbour_count)
        text_add(&text, "not known by name");
    else if (!*neighbour->name)
        text_format(&text, "pid %llu, name unknown", (unsigned long long)neighbour->pid);
    else
        text_format(&text, "%s, pid %llu", neighbour->name, (unsigned long long)neighbour->pid);
    return figure;
}

void cause_say_growth(struct text *text, const char *what, const struct vramgc_file *file,
                      const struct vramgc_device *device, const struct oom_growth *growth) {
    uint64_t grown = growth_bytes(growth);
    if (growth->jobs)
        text_format(text, "%s: +%s a job, %s jobs", what, show_bytes(growth->job_bytes).text,
                    show_count(growth->jobs).text);
    else
        text_format(text, "%s: +%s, to %s", what, show_bytes(grown).text,
                    show_bytes(growth->latest_bytes).text);
    growers_say(text, file, device, grown);
    text_add(text, ".");
}

static bool is_child(const struct oom *oom) {
    return oom->sum.neighbour_count && oom->device->neighbours.list[0].started_here == 1;
}

/* What the largest other process has would not have been enough. */
static bool of_several(const struct oom *oom) {
    return oom->sum.neighbour_count > 1 && oom->sum.neighbour_bytes[0] < oom->lacking_bytes;
}

static void say_process(struct text *text, const struct oom *oom) {
    const struct oom_sum *sum = &oom->sum;
    struct parts parts = parts_of(oom);
    if (oom->of_context && !sum->neighbour_count)
        text_add(text, "Other processes have the card; which, is not known here.");
    else if (of_several(oom))
        text_format(text, "Other processes hold %s of the card (the largest: %s).",
                    show_bytes(oom_others_bytes(sum)).text, show_name(oom).text);
    else
        text_format(text, "%s holds %s of the card (%s).",
                    is_child(oom) ? "A process that this program started" : "Another process",
                    parts.figures[parts.process].text, show_name(oom).text);
}

static void say_host(struct text *text, const struct vramgc_refusal *r) {
    text_format(text, "Not the card, but RAM: the host refused page-locked memory. %s are pinned.",
                show_bytes(r->held_bytes).text);
    if (r->total_bytes)
        text_format(text, " The host has %s, of which %s were available.",
                    show_bytes(r->total_bytes).text, show_bytes(r->free_bytes).text);
}

/* Not a PyTorch program, or one without its cache: there is no extension to find. */
static bool is_foreign(const struct oom *oom) {
    return oom->cause == CAUSE_CODE && oom->device->stats.reserved_bytes.peak == 0;
}

static void say_code(struct text *text, const struct oom *oom) {
    struct parts parts = parts_of(oom);
    struct figure held = parts.figures[parts.code];
    const char *library = library_name(oom->record->file, oom->refusal->library);
    if (is_foreign(oom))
        text_format(text, "The program holds %s, none of it by PyTorch's caching allocator.",
                    held.text);
    else
        text_format(text, "Other code in this program%s%s%s holds %s; PyTorch does not know it.",
                    library ? ", mostly " : "", library ? library : "", library ? "," : "",
                    held.text);
}

static bool has_graphs(const struct oom *oom) {
    return oom->record->file->process.captures > 0;
}

static void say_small(struct text *text, const struct oom *oom) {
    struct figure lacking = show_bytes(oom->lacking_bytes);
    if (!oom->lacking_bytes) /* but for the rest of a page */
        text_add(text, "The card is full.");
    else if (oom->refusal->reported == VRAMGC_WENT_ON)
        text_format(text, "For this the card had no room: %s were lacking.", lacking.text);
    else if (oom->stayed_bytes)
        text_format(text,
                    "The card is full: %s were lacking, and %s more stay live than after the first "
                    "job.",
                    lacking.text, show_bytes(oom->stayed_bytes).text);
    else
        text_format(text, "The card is too small for this: %s were lacking.", lacking.text);
}

/* What the line of the sum shows as both: idle bytes beside live ones in a page, too. */
static struct figure show_free_or_idle(const struct oom *oom) {
    return oom->sum.known ? show_sum(oom->sum.free_bytes, oom->sum.idle_bytes)
                          : show_sum(oom->refusal->free_bytes, oom->refusal->idle_bytes);
}

/* As it is by now: `vramgc set` may have changed it. */
static const char *name_of_limit(const struct oom *oom) {
    const struct vramgc_limits *limits = &oom->record->file->limits;
    return !limits->cap        ? "VRAMGC_HEADROOM"
           : !limits->headroom ? "VRAMGC_CAP"
                               : "VRAMGC_HEADROOM or VRAMGC_CAP";
}

static void say_plain(struct text *text, const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    switch (oom->cause) {
    case CAUSE_FRAGMENTATION:
        text_format(text, "Fragmentation: %s were free or idle, but in pieces.",
                    show_free_or_idle(oom).text);
        break;
    case CAUSE_POOL:
        text_format(text, "The driver's pool (cudaMallocAsync) keeps %s, in pieces.",
                    show_bytes(r->idle_bytes).text);
        break;
    case CAUSE_PRIVATE:
        text_format(text, "%s %s that nothing else can use.",
                    has_graphs(oom) ? "CUDA graphs keep" : "A torch.cuda.MemPool keeps",
                    show_bytes(oom->kept_bytes).text);
        break;
    case CAUSE_SMALL:
        say_small(text, oom);
        break;
    case CAUSE_ROUNDED:
        text_format(text,
                    "The card is full: the last of PyTorch's steps of 12 or 20 MiB did not fit.");
        break;
    case CAUSE_CODE:
        say_code(text, oom);
        break;
    case CAUSE_TOO_LARGE:
        text_format(text, "The request alone, %s, is larger than the card, %s.",
                    show_bytes(r->request_bytes).text, show_bytes(r->total_bytes).text);
        break;
    case CAUSE_DRIVER:
        text_format(text, "The driver refused, although %s were free.",
                    show_bytes(r->free_bytes).text);
        break;
    case CAUSE_LIMIT:
        text_add(text, "Not the card, but a memory limit that was set for PyTorch.");
        break;
    case CAUSE_RESERVED:
        text_format(text, "Not the card, which had %s more: %s kept that from the program.",
                    show_bytes(r->limited_bytes).text, name_of_limit(oom));
        break;
    default:
        text_add(text, "Not known: what was free then could not be read.");
    }
}

static bool is_full(const struct oom *oom) {
    return oom->cause == CAUSE_SMALL || oom->cause == CAUSE_ROUNDED;
}

void cause_say(struct text *text, const struct oom *oom) {
    if (oom->cause == CAUSE_GROWTH && oom->pile)
        growers_say_pile(text, oom->record->file, oom->pile);
    else if (oom->cause == CAUSE_GROWTH)
        cause_say_growth(text,
                         oom->refusal->cause == VRAMGC_REFUSAL_FRAGMENTED
                             ? "Tensors leave the card in pieces, and grow"
                             : "Tensors fill the card, and grow",
                         oom->record->file, oom->device, &oom->growth);
    else if (oom->cause == CAUSE_PROCESS)
        say_process(text, oom);
    else if (oom->cause == CAUSE_HOST)
        say_host(text, oom->refusal);
    else
        say_plain(text, oom);
    if (oom->cause == CAUSE_ROUNDED && oom->stayed_bytes)
        text_format(text, " %s more stay live than after the first job.",
                    show_bytes(oom->stayed_bytes).text);
}

#define TODO_FOR_GRAPHS                                                                            \
    "Capture fewer sizes, or turn CUDA graphs off (torch.compile: not in mode reduce-overhead or " \
    "max-autotune)."

static bool waits_for_proof(const struct oom *oom) {
    return oom->record->file->needs_proof == 1;
}

static bool is_on(const struct oom *oom, const char *setting) {
    const char *value = stats_file_setting(oom->record, setting);
    return value && strcmp(value, "0") != 0;
}

/* What gives idle memory back here, and does not yet. */
static const char *todo_for_pieces(const struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    const char *asked = stats_file_setting(oom->record, "mode");
    enum option_mode mode = stats_file_mode(file);
    if (mode == MODE_OBSERVE)
        return "Run without --mode observe: vramgc then gives idle memory back, which may be "
               "enough.";
    if (mode == MODE_COMPACT)
        return "Try again: the GPU had not finished with idle memory. Else make the batch smaller.";
    if (waits_for_proof(oom))
        return "Run `vramgc prove`, a minute: then memory lies only behind live tensors.";
    if (asked && strcmp(asked, "auto") != 0)
        return "Run with --mode compact: memory then lies only behind live tensors.";
    if (has_graphs(oom)) /* what they keep goes back in no mode */
        return TODO_FOR_GRAPHS;
    bool expandable = stats_file_is_expandable(file);
    if (is_on(oom, "lowvram"))
        return expandable ? "Try again: idle memory goes back at rest. Else make the batch smaller."
                          : "Set PYTORCH_ALLOC_CONF=expandable_segments:True.";
    if (!expandable)
        return "Set PYTORCH_ALLOC_CONF=expandable_segments:True, or use `vramgc run --lowvram`, "
               "which moves no model to RAM.";
    return "Use `vramgc run --lowvram`: idle memory then goes back at once; no model is moved to "
           "RAM.";
}

/* The driver's pool stands in the way of nothing where compact cannot be; where it is, all but what
 * our pool could not serve is in ours already. */
static void say_todo_for_pool(struct text *text, const struct oom *oom) {
    const char *no_pool = webui_of(oom->record->file)->no_pool;
    if (stats_file_mode(oom->record->file) == MODE_COMPACT && !oom->record->file->driver_pool)
        text_add(text,
                 "Try again: the driver's pool is used where vramgc's cannot serve a request. "
                 "Else make image or batch smaller.");
    else if (stats_file_bears_no_pages(oom->record))
        text_format(text, "%s: vramgc then has PyTorch empty its cache.",
                    no_pool ? no_pool : "Take backend:cudaMallocAsync out of PYTORCH_ALLOC_CONF");
    else
        text_format(text,
                    "Run with %s--async pages: a pool of vramgc, which keeps only what is "
                    "live.",
                    oom->record->file->driver_pool ? "" : "--mode compact ");
}

/* Compact gives back what a MemPool keeps, and not what a graph does. */
static const char *todo_for_private(const struct oom *oom) {
    if (has_graphs(oom))
        return TODO_FOR_GRAPHS;
    if (waits_for_proof(oom))
        return todo_for_pieces(oom);
    return stats_file_bears_no_pages(oom->record)
               ? "Delete the pool when its work is done."
               : "Delete the pool when its work is done, or run with --mode compact.";
}

static const char *todo_for_process(const struct oom *oom) {
    return is_child(oom) && !of_several(oom)
               ? "Have the program start fewer of these, or have them give their memory back."
           : of_several(oom) ? "Stop some of them, or have them give their memory back."
           : oom->sum.neighbour_count && strstr(oom->device->neighbours.list[0].name, "ollama")
               ? "Have it unload its model (ollama stop MODEL), or stop it."
               : "Stop it, or have it give its memory back.";
}

static bool is_part_of(const struct oom *oom, const char *phase) {
    const struct vramgc_site *site = who_asked(oom->record->file, oom->refusal);
    return site && strcmp(site->phase, phase) == 0;
}

static void end_with_tiles(struct text *text, const struct oom *oom) {
    if (is_part_of(oom, "VAE"))
        text_format(text, ", or have the VAE work in tiles (%s)",
                    webui_of(oom->record->file)->tiles);
    text_add(text, ".");
}

static void say_what_offloads(struct text *text, const struct oom *oom) {
    const char *offload = webui_offload(oom->record->file);
    if (offload)
        text_format(text, " (%s)", offload);
    text_add(text, ".");
}

/* While a model is loaded no image is at work. */
static bool say_todo_for_load(struct text *text, const struct oom *oom) {
    bool loads = is_part_of(oom, "model move");
    if (loads) {
        text_add(text, "A model was being loaded: keep fewer on the card");
        say_what_offloads(text, oom);
    }
    return loads;
}

/* With its options for that in use already a web UI is not told to offload. */
static void say_todo_for_small(struct text *text, const struct oom *oom) {
    struct text_encoder encoder = text_encoder_of(oom);
    if (say_todo_for_load(text, oom))
        return;
    if (encoder.bytes) {
        text_format(text,
                    "A model of the transformers library, a text encoder as a rule, has %s "
                    "while %s runs: move it to host memory first",
                    show_bytes(encoder.bytes).text, encoder.work);
        say_what_offloads(text, oom);
        return;
    }
    text_add(text, "Make image or batch smaller");
    const char *offload = oom->of_aimdo ? NULL : webui_offload(oom->record->file);
    if (offload)
        text_format(text, ", %soffload models (%s)", is_part_of(oom, "VAE") ? "" : "or ", offload);
    end_with_tiles(text, oom);
}

/* PyTorch's own segments come in no such steps from 10 MiB on. */
static void say_other_segments(struct text *text, const struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    if (stats_file_mode(file) == MODE_FLUSH && file->chose_segments)
        text_format(text,
                    " Or run %s--alloc-conf keep: PyTorch then asks for no more than it needs.",
                    waits_for_proof(oom) ? "`vramgc prove`, a minute, or run with " : "with ");
}

static void say_todo_for_rounded(struct text *text, const struct oom *oom) {
    if (say_todo_for_load(text, oom))
        return;
    text_add(text, "Make the image or the batch a little smaller");
    end_with_tiles(text, oom);
    say_other_segments(text, oom);
}

static const char *who_asks(const struct oom *oom) {
    return is_on(oom, "backtrace") ? "`vramgc report --open`" : "--backtrace 8";
}

static void say_todo_for_code(struct text *text, const struct oom *oom) {
    const char *library = library_name(oom->record->file, oom->refusal->library);
    if (library)
        text_format(text, "Turn off the extension that uses %s, or give it less.", library);
    else
        text_format(text, "Find the extension: %s tells who asks. Turn it off, or give it less.",
                    who_asks(oom));
}

static void say_todo_for_other_code(struct text *text, const struct oom *oom) {
    const struct vramgc_site *site = who_asked(oom->record->file, oom->refusal);
    text_add(text, "Other code than PyTorch's cache asked for it");
    if (site)
        text_format(text, ", in %s.", who_short_name(site).text);
    else
        text_format(text, ": %s tells who.", who_asks(oom));
}

/* Where all that the program had, and what it wanted, would have fitted. CUDA counts the fastest
 * card first unless it is told to count as nvidia-smi does. */
static void say_other_card(struct text *text, const struct oom *oom) {
    const struct vramgc_other_card *card = &oom->device->other_card;
    const struct vramgc_refusal *r = oom->refusal;
    const char *option = webui_of(oom->record->file)->device;
    bool helps = is_full(oom) || oom->cause == CAUSE_PROCESS || oom->cause == CAUSE_CODE ||
                 oom->cause == CAUSE_TOO_LARGE;
    uint64_t needed = r->allocated_bytes + r->other_bytes + r->request_bytes;
    unsigned long long number = card->number;
    if (!helps || !card->time_ns || card->time_ns < r->time_ns || card->free_bytes < needed)
        return;
    text_format(text, " Or use GPU %llu%s%s, which has %s free: CUDA_DEVICE_ORDER=PCI_BUS_ID and ",
                number, *card->name ? ", " : "", card->name, show_bytes(card->free_bytes).text);
    text_format(text, "CUDA_VISIBLE_DEVICES=%llu", number);
    if (option)
        text_format(text, ", or %s %llu instead of that", option, number);
    text_add(text, ".");
}

static void say_todo_for_host(struct text *text, const struct oom *oom) {
    webui_say_pins_less(text, oom->record->file);
    text_add(text, ", end other programs, or raise `ulimit -l` and the container's limit.");
}

static void say_todo_for_limit(struct text *text, const struct oom *oom) {
    const char *limit = webui_of(oom->record->file)->limit;
    text_format(text, "Take that limit out (%s).",
                limit ? limit : "torch.cuda.set_per_process_memory_fraction");
}

void cause_say_todo(struct text *text, const struct oom *oom) {
    static const char *const plain[CAUSES] = {
        [CAUSE_UNKNOWN] = "Make the image or the batch smaller.",
        [CAUSE_GROWTH] = CAUSE_FIND_KEPT " Until then start the program anew now and then.",
        [CAUSE_TOO_LARGE] = "Make image or batch smaller; tile the VAE; use attention in slices "
                            "(SDPA, xformers).",
        [CAUSE_DRIVER] = "Try again. If it stays so, look for errors of the driver (dmesg, Xid).",
    };
    if (oom->refusal->reported == VRAMGC_WENT_ON) {
        text_add(text, "Nothing has to be done. A smaller image or batch leaves room for faster "
                       "ways.");
        return;
    }
    if ((!oom->of_pytorch && oom->cause != CAUSE_PROCESS) || is_foreign(oom))
        say_todo_for_other_code(text, oom);
    else if (oom->cause == CAUSE_FRAGMENTATION ||
             (oom->cause == CAUSE_POOL && waits_for_proof(oom)))
        text_add(text, todo_for_pieces(oom));
    else if (oom->cause == CAUSE_POOL)
        say_todo_for_pool(text, oom);
    else if (oom->cause == CAUSE_PRIVATE)
        text_add(text, todo_for_private(oom));
    else if (oom->cause == CAUSE_PROCESS)
        text_add(text, todo_for_process(oom));
    else if (oom->cause == CAUSE_CODE)
        say_todo_for_code(text, oom);
    else if (is_full(oom) && oom->stayed_bytes)
        text_add(text, "Unload the models that earlier jobs used, or find what else they left.");
    else if (oom->cause == CAUSE_SMALL)
        say_todo_for_small(text, oom);
    else if (oom->cause == CAUSE_ROUNDED)
        say_todo_for_rounded(text, oom);
    else if (oom->cause == CAUSE_RESERVED)
        text_format(text,
                    "%s (`vramgc set PID %s=SIZE` while the program runs, 0 ends it), or make "
                    "image or batch smaller.",
                    oom->record->file->limits.cap ? "Raise VRAMGC_CAP" : "Lower VRAMGC_HEADROOM",
                    oom->record->file->limits.cap ? "cap" : "headroom");
    else if (oom->cause == CAUSE_HOST)
        say_todo_for_host(text, oom);
    else if (oom->cause == CAUSE_LIMIT)
        say_todo_for_limit(text, oom);
    else
        text_add(text, plain[oom->cause]);
    if (oom->cause == CAUSE_GROWTH && oom->pile && !oom->growth.grows)
        text_add(text, " Is this a model that is being loaded? Then the card is too small for it.");
    if (is_full(oom) && oom->of_pytorch)
        spill_say(text, oom);
    say_other_card(text, oom);
}
