/* record_fields.c: see record_fields.h. It says what a field is called and means, and not how a
 * format writes it. */
#include "show/record_fields.h"
#include "judge/cause.h"
#include "judge/who.h"
#include "read/derived.h"
#include "base/base.h"

#include <assert.h>
#include <string.h>

/* Begins a function that is given r, a struct vramgc_KIND, and the file that it is of. KIND_type
 * has it, what its list is called in the JSON report, and what else there is to know of that. */
#define FIELDS_OF(kind, name, about, about_one, ...)                                               \
    static void write_##kind(struct emit *emit, const struct vramgc_file *file,                    \
                             const struct vramgc_##kind *r);                                       \
    static void write_any_##kind(struct emit *emit, const struct vramgc_file *file,                \
                                 const void *record) {                                             \
        write_##kind(emit, file, record);                                                          \
    }                                                                                              \
    const struct record_type kind##_type = {.list = name,                                          \
                                            .help = about,                                         \
                                            .help_of_one = about_one,                              \
                                            .write = write_any_##kind,                             \
                                            __VA_ARGS__};                                          \
    static void write_##kind(struct emit *emit,                                                    \
                             __attribute__((unused)) const struct vramgc_file *file,               \
                             const struct vramgc_##kind *r)

/* Where struct stats_file lists them. */
#define LISTED_AS(pointers, number)                                                                \
    .entries = offsetof(struct stats_file, pointers), .count = offsetof(struct stats_file, number)

FIELDS_OF(action, "actions", "reclaims, oldest first", "one reclaim",
          LISTED_AS(actions, action_count)) {
    emit_number(emit, "time_ns", UNIT_NS, "since the start of the record", r->time_ns);
    emit_number(emit, "device", UNIT_ID, "index", r->device);
    emit_text(emit, "kind", "soft_oom, flush, trim, pages", stats_file_action_name(r->kind));
    emit_text(emit, "reason", "threshold, lowvram, request, refused, peer",
              stats_file_reason_name(r->reason));
    emit_bool(emit, "observed", "true: mode observe, nothing was done", r->observed == 1);
    emit_number(emit, "took_ns", UNIT_NS, "from decision until done", r->took_ns);
    emit_number_if(emit, "until_ns", UNIT_NS,
                   "pages, which go one after another: when the latest had gone", r->until_ns > 0,
                   r->until_ns);
    emit_number(emit, "before_bytes", UNIT_BYTES,
                "reserved before; pages: after_bytes and all that was released meanwhile",
                r->before_bytes);
    emit_number(emit, "after_bytes", UNIT_BYTES,
                "reserved after; pages: physical memory behind PyTorch's segments", r->after_bytes);
    emit_number(emit, "net_bytes", UNIT_BYTES,
                "how much less this process held at the end than at the beginning", r->net_bytes);
    emit_number(emit, "held_bytes", UNIT_BYTES, "by this process at the end; observed: would be",
                r->held_bytes);
    emit_number(emit, "used_bytes", UNIT_BYTES, "of the device when decided", r->used_bytes);
    emit_number(emit, "request_bytes", UNIT_BYTES, "request that led to it, 0: none",
                r->request_bytes);
    emit_text(emit, "function", "Python function that took memory last", r->function);
    emit_text(emit, "phase", "what it was part of", r->phase);
    emit_number_if(emit, "asker", UNIT_ID, "process that lacked memory (peer)", r->asker > 0,
                   r->asker);
    emit_text(emit, "asker_name", "its name; or the library that lacked memory (refused)",
              r->asker_name);
}

static void write_refusal_holes(struct emit *emit, const struct vramgc_refusal *r) {
    struct derived external = external_fragmentation(r), index = fragmentation_index(r);
    emit_number(emit, "holes", UNIT_COUNT,
                "runs of free bytes in PyTorch's segments (compact: addresses)", r->holes);
    emit_number(emit, "hole_bytes", UNIT_BYTES, "in all of them", r->hole_bytes);
    emit_number(emit, "largest_hole_bytes", UNIT_BYTES, "in PyTorch's segments",
                r->largest_hole_bytes);
    emit_real_if(emit, "external_fragmentation", "1 - largest hole / bytes in all holes",
                 external.known, external.value);
    emit_real_if(
        emit, "fragmentation_index",
        "0: PyTorch's segments had too little free memory, near 1: enough, but in too small "
        "holes; null: no hole, or the request would have fitted into one (Gorman and "
        "Whitcroft 2006)",
        index.known, index.value);
}

FIELDS_OF(
    refusal, "refusals",
    "allocations that the driver refused, or for which PyTorch was out of memory without asking, "
    "oldest first",
    "one refusal", LISTED_AS(refusals, refusal_count)) {
    emit_number(emit, "time_ns", UNIT_NS, "since the start of the record", r->time_ns);
    emit_number(emit, "device", UNIT_ID, "index", r->device);
    emit_text(emit, "cause",
              "unknown, full, fragmented, rounded, driver (refused although free), "
              "limit (PyTorch asked nobody), host (memory of the host)",
              r->cause < VRAMGC_CAUSES_SEEN ? cause_names[r->cause].seen : NULL);
    emit_bool(emit, "granted", "the caller asked again and got it", r->granted == 1);
    emit_number(emit, "request_bytes", UNIT_BYTES, "asked for", r->request_bytes);
    emit_number(emit, "free_bytes", UNIT_BYTES, "of the device", r->free_bytes);
    emit_number(emit, "idle_bytes", UNIT_BYTES,
                "whole idle pages in PyTorch's segments, and what a pool caches", r->idle_bytes);
    write_refusal_holes(emit, r);
    emit_number(emit, "allocated_bytes", UNIT_BYTES, "live then", r->allocated_bytes);
    emit_number(emit, "reserved_bytes", UNIT_BYTES, "reserved then", r->reserved_bytes);
    emit_number(emit, "held_bytes", UNIT_BYTES, "by this process then; host: page-locked memory",
                r->held_bytes);
    emit_number(emit, "other_bytes", UNIT_BYTES, "of held_bytes: not of PyTorch's allocator",
                r->other_bytes);
    emit_number(emit, "step_bytes", UNIT_BYTES, "of other_bytes: kept for a model's step",
                r->step_bytes);
    emit_text(emit, "library", "that held most of other_bytes, by its file; null: none did",
              library_name(file, r->library));
    emit_number(emit, "kept_bytes", UNIT_BYTES,
                "segments and mapped pages without an active block (compact: addresses)",
                r->kept_bytes);
    emit_number(emit, "total_bytes", UNIT_BYTES, "of the device; host: of the host",
                r->total_bytes);
    emit_number(emit, "limited_bytes", UNIT_BYTES,
                "free on the card, but kept from the program by VRAMGC_HEADROOM or VRAMGC_CAP",
                r->limited_bytes);
    emit_number(emit, "turns", UNIT_COUNT, "the device's floors until then", r->turns);
    emit_bool(emit, "reported", "PyTorch raised an out-of-memory error",
              r->reported == VRAMGC_REPORTED || r->reported == VRAMGC_WENT_ON);
    emit_bool(emit, "went_on", "the work went on at once without the memory",
              r->reported == VRAMGC_WENT_ON);
    emit_text(emit, "function", "driver or runtime function that was called",
              stats_file_hook_name(file, r->hook));
    emit_number_if(emit, "stack", UNIT_ID, "index in stacks",
                   r->stack > 0 && r->stack <= file->stack_count, r->stack - 1);
    emit_number_if(emit, "site", UNIT_ID, "index in sites: the Python function that asked",
                   r->site > 0 && r->site <= file->site_count, r->site - 1);
}

FIELDS_OF(mark, "marks", "named points in time", "one mark", LISTED_AS(marks, mark_count)) {
    emit_number(emit, "time_ns", UNIT_NS, "since the start of the record", r->time_ns);
    emit_label(emit, "label", "as given to vramgc_mark()", r->label);
}

FIELDS_OF(
    job, "jobs",
    "what the program did between two rests, where live memory rose and fell meanwhile, oldest "
    "first",
    "one job", LISTED_AS(jobs, job_count)) {
    emit_number(emit, "number", UNIT_ID, "of the device: 1, 2, ...", r->number);
    emit_number(emit, "device", UNIT_ID, "index", r->device);
    emit_number(emit, "time_ns", UNIT_NS, "when it began, since the start of the record",
                r->time_ns);
    emit_number(emit, "took_ns", UNIT_NS, "until its last block event", r->took_ns);
    emit_number(emit, "peak_live_bytes", UNIT_BYTES, "most live memory", r->peak_live_bytes);
    emit_number(emit, "peak_held_bytes", UNIT_BYTES, "most that this process was seen to hold",
                r->peak_held_bytes);
    emit_number(emit, "live_bytes", UNIT_BYTES, "live after it", r->live_bytes);
    emit_number_if(emit, "host_bytes", UNIT_BYTES,
                   "of the host after it: resident memory of the process but for mapped files",
                   r->host_bytes > 0, r->host_bytes);
    emit_number(emit, "pinned_bytes", UNIT_BYTES, "page-locked host memory after it",
                r->pinned_bytes);
    emit_number(emit, "moved_bytes", UNIT_BYTES, "taken meanwhile to move models to the card",
                r->moved_bytes);
}

FIELDS_OF(
    neighbour, "neighbours",
    "processes that had memory of the device when some was last refused, by NVML, the largest "
    "first",
    "one process") {
    emit_number(emit, "pid", UNIT_ID, "as NVML tells it", r->pid);
    emit_text(emit, "name", "null: not known", r->name);
    emit_bool(emit, "started_here", "by this program", r->started_here == 1);
    emit_number(emit, "bytes", UNIT_BYTES, "of the device", r->bytes);
}

FIELDS_OF(owner, "list", "the largest first", "one owner") {
    emit_number(emit, "site", UNIT_ID, "index in sites", r->site);
    emit_number(emit, "bytes", UNIT_BYTES, "live; estimated from those blocks", r->bytes);
    emit_number(emit, "blocks", UNIT_COUNT, "of it that were looked at", r->blocks);
}

FIELDS_OF(who, "who_over_time",
          "whose live memory was, at its highest between two looks; when the list is full, of two "
          "points the higher one stays",
          "one point") {
    uint64_t sites[VRAMGC_WHO_OWNERS], bytes[VRAMGC_WHO_OWNERS];
    for (uint32_t i = 0; i < VRAMGC_WHO_OWNERS; i++) {
        sites[i] = r->sites[i];
        bytes[i] = who_bytes(r, i);
    }
    emit_number(emit, "time_ns", UNIT_NS, "since the start of the record", r->time_ns);
    emit_number(emit, "live_bytes", UNIT_BYTES, "of everybody together", r->live_bytes);
    emit_number_if(emit, "works", UNIT_ID, "index in sites: who took memory last", r->works > 0,
                   minus_u64(r->works, 1));
    emit_numbers(emit, "sites", "indexes in sites, of the largest first", sites, sizeof *sites,
                 r->count);
    emit_numbers(emit, "bytes", "of each", bytes, sizeof *bytes, r->count);
}

FIELDS_OF(site, "sites", "Python functions that took memory, or called one that did", "one place") {
    emit_text(
        emit, "function",
        "the innermost that is not PyTorch's; of a method with its class, from Python 3.11 on",
        r->function);
    emit_text(emit, "source", "its file: the last two parts of the path", r->file);
    emit_number(emit, "line", UNIT_ID, "where it begins", r->line);
    emit_text(emit, "phase", "what it was part of, null: nothing that is known", r->phase);
    emit_number(emit, "rogues", UNIT_COUNT, "tensors that outlived aimdo's step", r->rogues);
    emit_number(emit, "breaks", UNIT_COUNT, "with which it was not as recorded", r->breaks);
}

FIELDS_OF(frame, "frames", "innermost first", "one frame") {
    emit_number(emit, "address", UNIT_ID, "return address", r->address);
    emit_text(emit, "text", "symbol+offset (object)", r->text);
}

FIELDS_OF(setting, "settings", "as they were in force", "one setting") {
    emit_label(emit, "name", "without VRAMGC_, in lower case", r->name);
    emit_label(emit, "value", "in force", r->value);
    emit_label(emit, "origin", "default; environment; invalid: the default is in force", r->origin);
}

FIELDS_OF(hook, "hooks",
          "functions of CUDA that were intercepted and called; block events of PyTorch are in "
          "block_allocs and block_frees",
          "one function") {
    emit_label(emit, "name", "its symbol", r->name);
    emit_number(emit, "calls", UNIT_COUNT, "seen", r->calls);
    emit_number(emit, "failed", UNIT_COUNT, "that returned an error", r->failed);
}

/* ---- the host's memory ---- */

#define FIGURE(name, help, none_is_0)                                                              \
    { #name, help, offsetof(struct vramgc_host_look, name), none_is_0 }
const struct host_figure host_figures[HOST_FIGURES] = {
    FIGURE(anon_bytes, "resident and of no file", false),
    FIGURE(shared_bytes, "resident and shared, as of /dev/shm", false),
    FIGURE(file_bytes, "resident of files that are mapped; Linux takes it back", false),
    FIGURE(swap_bytes, "swapped out", false),
    FIGURE(limit_bytes, "least limit of its control group and of those that it is in", true),
    FIGURE(group_bytes, "what counts against that, cached files among it", true),
    FIGURE(total_bytes, "of the machine", true),
    FIGURE(available_bytes, "of the machine, to be had without swapping", true),
};
#undef FIGURE

uint64_t host_figure(const struct host_figure *figure, const struct vramgc_host_look *look) {
    uint64_t value;
    memcpy(&value, (const char *)look + figure->offset, sizeof value);
    return value;
}

static void write_look(struct emit *emit, const char *name, const char *help,
                       const struct vramgc_host_look *look) {
    bool known = look->time_ns > 0;
    emit_open(emit, name, help);
    emit_number_if(emit, "time_ns", UNIT_NS, "since the start of the record", known, look->time_ns);
    for (size_t i = 0; i < HOST_FIGURES; i++) {
        const struct host_figure *figure = &host_figures[i];
        uint64_t value = host_figure(figure, look);
        emit_number_if(emit, figure->name, UNIT_BYTES, figure->help,
                       known && (value || !figure->none_is_0), value);
    }
    emit_close(emit);
}

void host_fields(struct emit *emit, const struct vramgc_host *host) {
    static const char *const lack[] = {
        [VRAMGC_LACK_NONE] = "none", [VRAMGC_LACK_KILLED] = "killed"};
    emit_open(emit, "host", "what it had of the host's memory; looked at once a second");
    write_look(emit, "latest", "when last looked at", &host->latest);
    write_look(emit, "at_peak", "when it had most, what was swapped with it and files without",
               &host->peak);
    emit_number_if(emit, "in_use_bytes", UNIT_BYTES,
                   "what its allocator had given out when the program last rested",
                   host->in_use_bytes > 0, host->in_use_bytes);
    emit_text(emit, "after_latest",
              "killed: after that Linux ended a process of its control group for lack of memory; "
              "none: it did not; null: not known",
              host->lack < ARRAY_LENGTH(lack) ? lack[host->lack] : NULL);
    emit_text(emit, "call", "by which its allocator gave memory back; null: never", host->call);
    emit_close(emit);
}

/* ---- lists ---- */

struct record_list record_entries(const struct stats_file *record, const struct record_type *type) {
    struct record_list list = {.first = (const char *)record + type->entries};
    memcpy(&list.count, (const char *)record + type->count, sizeof list.count);
    return list;
}

static const void *record_of(const struct record_list *list, size_t index) {
    const char *first = list->first;
    const void *pointer;
    if (list->bytes)
        return first + index * list->bytes;
    memcpy(&pointer, first + index * sizeof pointer, sizeof pointer);
    return pointer;
}

/* A schema wants an item of an empty list, too: there all of the file is 0. */
void record_list_write(struct emit *emit, const struct record_type *type,
                       const struct vramgc_file *file, struct record_list list) {
    size_t count = emit_list(emit, type->list, type->help, list.count);
    for (size_t i = 0; i < count; i++) {
        emit_open_line(emit, NULL, type->help_of_one);
        type->write(emit, file, emit->format == EMIT_SCHEMA ? file : record_of(&list, i));
        emit_close(emit);
    }
    emit_close(emit);
}

void record_columns(struct emit *emit, const struct record_type *type, const char *names,
                    const struct vramgc_file *file, const void *record) {
    for (emit->only = names; *emit->only; emit->only += *emit->only == ',') {
        size_t before = emit->levels[emit->depth].count;
        type->write(emit, file, record);
        assert(emit->levels[emit->depth].count == before + 1); /* there is such a field */
        emit->only += strcspn(emit->only, ",");
    }
    emit->only = NULL;
}
