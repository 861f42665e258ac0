/* report_fields.c: see report_fields.h. Descriptions of figures come from stats.def and
 * derived.def. */
#include "show/report_fields.h"
#include "read/derived.h"
#include "show/host_block.h"
#include "show/jobs_table.h"
#include "judge/other_libraries.h"
#include "judge/verdict.h"
#include "judge/who.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void write_gauge(struct emit *emit, const char *name, enum unit unit, const char *help,
                        const struct vramgc_gauge *gauge) {
    emit_open_line(emit, name, help);
    emit_number(emit, "current", unit, "at the end, or now", gauge->current);
    emit_number(emit, "peak", unit, "highest value so far", gauge->peak);
    emit_close(emit);
}

static void write_device_stats(struct emit *emit, const struct vramgc_device_stats *s) {
#define DEVICE_GAUGE(name, unit, help) write_gauge(emit, #name, UNIT_##unit, help, &s->name);
#define DEVICE_TOTAL(name, unit, help) emit_number(emit, #name, UNIT_##unit, help, s->name);
#define PROCESS_TOTAL(name, unit, help)
#include "stats.def"
#undef DEVICE_GAUGE
#undef DEVICE_TOTAL
#undef PROCESS_TOTAL
}

static void write_process_stats(struct emit *emit, const struct vramgc_process_stats *s) {
    emit_open(emit, "totals", "figures kept once for the process");
#define DEVICE_GAUGE(name, unit, help)
#define DEVICE_TOTAL(name, unit, help)
#define PROCESS_TOTAL(name, unit, help) emit_number(emit, #name, UNIT_##unit, help, s->name);
#include "stats.def"
#undef DEVICE_GAUGE
#undef DEVICE_TOTAL
#undef PROCESS_TOTAL
    emit_close(emit);
}

static void write_derived(struct emit *emit, const struct vramgc_device *device) {
    emit_open(emit, "derived", "figures computed from the others; null where unknown");
    for (size_t i = 0; i < DERIVED_COUNT; i++) {
        struct derived figure = derived_figure((enum derived_id)i, device);
        emit_real_if(emit, derived_table[i].name, derived_table[i].help, figure.known,
                     figure.value);
    }
    emit_close(emit);
}

static void write_samples(struct emit *emit, const struct vramgc_device *device) {
    const struct vramgc_sample *first = device->samples;
    const size_t stride = sizeof *first, count = device->sample_count;
    emit_open(emit, "samples", "the timeline, a column for each figure");
    emit_number(emit, "step_ns", UNIT_NS, "least time between two points", device->sample_step_ns);
    emit_numbers(emit, "time_ns", "since the start of the record", &first->time_ns, stride, count);
    emit_numbers(emit, "held_bytes", "as above", &first->held_bytes, stride, count);
    emit_numbers(emit, "reserved_bytes", "as above", &first->reserved_bytes, stride, count);
    emit_numbers(emit, "allocated_bytes", "live_bytes", &first->allocated_bytes, stride, count);
    emit_numbers(emit, "used_bytes", "as above", &first->used_bytes, stride, count);
    emit_numbers(emit, "others_bytes", "as above", &first->others_bytes, stride, count);
    emit_close(emit);
}

static void write_division(struct emit *emit, const char *name, const char *help,
                           struct division division) {
    emit_open_line(emit, name, help);
    emit_number(emit, "held_bytes", UNIT_BYTES, "by this process", division.held_bytes);
    emit_number_if(emit, "others_bytes", UNIT_BYTES, "by others and the driver", division.known,
                   division.others_bytes);
    emit_number_if(emit, "free_bytes", UNIT_BYTES, "free", division.known, division.free_bytes);
    emit_close(emit);
}

/* Item 0 of both lists is there in an empty file, too, as a schema needs it. */
static void write_neighbours(struct emit *emit, const struct vramgc_neighbours *neighbours) {
    size_t count = emit_list(emit, "neighbours",
                             "processes that had memory of the device when some was last refused, "
                             "by NVML, the largest first",
                             neighbours->count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_neighbour *neighbour = &neighbours->list[i];
        emit_open_line(emit, NULL, "one process");
        emit_number(emit, "pid", UNIT_ID, "as NVML tells it", neighbour->pid);
        emit_text(emit, "name", "null: not known", or_null(neighbour->name));
        emit_bool(emit, "started_here", "by this program", neighbour->started_here == 1);
        emit_number(emit, "bytes", UNIT_BYTES, "of the device", neighbour->bytes);
        emit_close(emit);
    }
    emit_close(emit);
}

static void write_other_card(struct emit *emit, const struct vramgc_other_card *card) {
    emit_open_line(
        emit, "other_card",
        "the card of the machine with most free memory, this device aside, when some was "
        "last refused, by NVML");
    emit_number_if(emit, "number", UNIT_ID, "as nvidia-smi counts", card->time_ns > 0,
                   card->number);
    emit_text(emit, "name", "null: not known", or_null(card->name));
    emit_number_if(emit, "free_bytes", UNIT_BYTES, "of that card", card->time_ns > 0,
                   card->free_bytes);
    emit_close(emit);
}

static void write_floors(struct emit *emit, const struct vramgc_floors *floors) {
    emit_open(emit, "floors", "how low live memory fell each time that much had been freed");
    emit_number(emit, "turns", UNIT_COUNT, "how often that was", floors->turns);
    emit_number(emit, "merged", UNIT_COUNT, "turns of which each floor is the lowest",
                floors->merged);
    emit_numbers(emit, "bytes", "oldest first", &floors->bytes[0], sizeof floors->bytes[0],
                 floors->count);
    emit_close(emit);
}

static void write_device(struct emit *emit, const struct vramgc_file *file, size_t index) {
    const struct vramgc_device *device = &file->devices[index];
    char capability[32];
    snprintf(capability, sizeof capability, "%lu.%lu", (unsigned long)device->compute_major,
             (unsigned long)device->compute_minor);
    emit_open(emit, NULL, "one device that the process used");
    emit_number(emit, "index", UNIT_ID, "CUDA's index in this process", index);
    emit_text(emit, "name", "as the driver calls it", or_null(device->name));
    emit_text(emit, "bus_id", "PCI bus id", or_null(device->bus_id));
    emit_text(emit, "compute_capability", "MAJOR.MINOR",
              device->compute_major > 0 ? capability : NULL);
    emit_number_if(emit, "total_bytes", UNIT_BYTES, "memory of the device", device->total_bytes > 0,
                   device->total_bytes);
    write_device_stats(emit, &device->stats);
    write_derived(emit, device);
    write_division(emit, "division_at_peak",
                   "the card when the process held most; the parts add up to total_bytes",
                   division_at_peak(device));
    write_division(emit, "division_at_end", "the card at the end; adds up to total_bytes",
                   division_at_end(device));
    emit_number_if(
        emit, "rest_ns", UNIT_NS,
        "when the program last rested, or Python began to end, since the start of the record",
        device->rest.time_ns > 0, device->rest.time_ns);
    write_division(emit, "division_at_rest", "the card then; adds up to total_bytes",
                   division_at_rest(device));
    libraries_fields(emit, file, device);
    write_neighbours(emit, &device->neighbours);
    write_other_card(emit, &device->other_card);
    write_floors(emit, &device->floors);
    who_fields(emit, device);
    write_samples(emit, device);
    emit_close(emit);
}

static void write_devices(struct emit *emit, const struct vramgc_file *file) {
    size_t used[VRAMGC_MAX_DEVICES] = {0}, count = 0;
    for (size_t i = 0; i < file->device_count; i++)
        if (file->devices[i].present)
            used[count++] = i;
    count = emit_list(emit, "devices", "those that the process used", count);
    for (size_t i = 0; i < count; i++)
        write_device(emit, file, used[i]);
    emit_close(emit);
}

/* Item i of a list of pointers, or for a schema, where the list may be empty, `spare`. */
#define ITEM(list, count, i, spare) ((i) < (count) ? (list)[i] : (spare))

static void write_actions(struct emit *emit, const struct stats_file *record) {
    size_t count = emit_list(emit, "actions", "reclaims, oldest first", record->action_count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_action *a =
            ITEM(record->actions, record->action_count, i, &record->file->actions[0]);
        emit_open_line(emit, NULL, "one reclaim");
        emit_number(emit, "time_ns", UNIT_NS, "since the start of the record", a->time_ns);
        emit_number(emit, "device", UNIT_ID, "index", a->device);
        emit_text(emit, "kind", "soft_oom, flush, trim, pages", stats_file_action_name(a->kind));
        emit_text(emit, "reason", "threshold, lowvram, request, refused, unused",
                  stats_file_reason_name(a->reason));
        emit_bool(emit, "observed", "true: mode observe, nothing was done", a->observed == 1);
        emit_number(emit, "took_ns", UNIT_NS, "from decision until done", a->took_ns);
        emit_number(emit, "before_bytes", UNIT_BYTES,
                    "reserved before; pages: after_bytes and all that was released meanwhile",
                    a->before_bytes);
        emit_number(emit, "after_bytes", UNIT_BYTES,
                    "reserved after; pages: physical memory behind PyTorch's segments",
                    a->after_bytes);
        emit_number(emit, "net_bytes", UNIT_BYTES,
                    "how much less this process held at the end than at the beginning",
                    a->net_bytes);
        emit_number(emit, "held_bytes", UNIT_BYTES,
                    "by this process at the end; observed: would be", a->held_bytes);
        emit_number(emit, "used_bytes", UNIT_BYTES, "of the device when decided", a->used_bytes);
        emit_number(emit, "request_bytes", UNIT_BYTES, "request that led to it, 0: none",
                    a->request_bytes);
        emit_text(emit, "function", "Python function then running", or_null(a->function));
        emit_text(emit, "phase", "what it was part of", or_null(a->phase));
        emit_close(emit);
    }
    emit_close(emit);
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

static void write_refusals(struct emit *emit, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    size_t count =
        emit_list(emit, "refusals",
                  "allocations that the driver refused, or for which PyTorch was out of memory "
                  "without asking, oldest first",
                  record->refusal_count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_refusal *r =
            ITEM(record->refusals, record->refusal_count, i, &file->refusals[0]);
        emit_open_line(emit, NULL, "one refusal");
        emit_number(emit, "time_ns", UNIT_NS, "since the start of the record", r->time_ns);
        emit_number(emit, "device", UNIT_ID, "index", r->device);
        emit_text(emit, "cause",
                  "unknown, full, fragmented, rounded, driver (refused although free), "
                  "limit (PyTorch asked nobody), host (memory of the host)",
                  stats_file_cause_name(r->cause));
        emit_bool(emit, "granted", "the caller asked again and got it", r->granted == 1);
        emit_number(emit, "request_bytes", UNIT_BYTES, "asked for", r->request_bytes);
        emit_number(emit, "free_bytes", UNIT_BYTES, "of the device", r->free_bytes);
        emit_number(emit, "idle_bytes", UNIT_BYTES,
                    "whole idle pages in PyTorch's segments, and what a pool caches",
                    r->idle_bytes);
        write_refusal_holes(emit, r);
        emit_number(emit, "allocated_bytes", UNIT_BYTES, "live then", r->allocated_bytes);
        emit_number(emit, "reserved_bytes", UNIT_BYTES, "reserved then", r->reserved_bytes);
        emit_number(emit, "held_bytes", UNIT_BYTES,
                    "by this process then; host: page-locked memory", r->held_bytes);
        emit_number(emit, "other_bytes", UNIT_BYTES, "of held_bytes: not of PyTorch's allocator",
                    r->other_bytes);
        emit_text(emit, "library", "that held most of other_bytes, by its file; null: none did",
                  library_name(file, r->library));
        emit_number(emit, "kept_bytes", UNIT_BYTES,
                    "segments and mapped pages without an active block (compact: addresses)",
                    r->kept_bytes);
        emit_number(emit, "total_bytes", UNIT_BYTES, "of the device; host: of the host",
                    r->total_bytes);
        emit_number(emit, "turns", UNIT_COUNT, "the device's floors until then", r->turns);
        emit_bool(emit, "reported", "PyTorch raised an out-of-memory error",
                  r->reported == VRAMGC_REPORTED || r->reported == VRAMGC_WENT_ON);
        emit_bool(emit, "went_on", "the work went on at once without the memory",
                  r->reported == VRAMGC_WENT_ON);
        emit_text(emit, "function", "driver or runtime function that was called",
                  r->hook < file->hook_count ? or_null(file->hooks[r->hook].name) : NULL);
        emit_number_if(emit, "stack", UNIT_ID, "index in stacks",
                       r->stack > 0 && r->stack <= file->stack_count, r->stack - 1);
        emit_number_if(emit, "site", UNIT_ID, "index in sites: the Python function that asked",
                       r->site > 0 && r->site <= file->site_count, r->site - 1);
        emit_close(emit);
    }
    emit_close(emit);
}

static void write_marks(struct emit *emit, const struct stats_file *record) {
    size_t count = emit_list(emit, "marks", "named points in time", record->mark_count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_mark *mark =
            ITEM(record->marks, record->mark_count, i, &record->file->marks[0]);
        emit_open_line(emit, NULL, "one mark");
        emit_number(emit, "time_ns", UNIT_NS, "since the start of the record", mark->time_ns);
        emit_text(emit, "label", "as given to vramgc_mark()", mark->label);
        emit_close(emit);
    }
    emit_close(emit);
}

static void write_stacks(struct emit *emit, const struct vramgc_file *file) {
    size_t count =
        emit_list(emit, "stacks", "call stacks that asked for memory", file->stack_count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_stack *stack = &file->stacks[i];
        emit_open(emit, NULL, "one call stack");
        emit_number(emit, "count", UNIT_COUNT, "allocations made from it", stack->count);
        emit_number(emit, "bytes", UNIT_BYTES, "asked for in all", stack->bytes);
        size_t frames = emit_list(emit, "frames", "innermost first", stack->frame_count);
        for (size_t j = 0; j < frames; j++) {
            emit_open_line(emit, NULL, "one frame");
            emit_number(emit, "address", UNIT_ID, "return address", stack->frames[j].address);
            emit_text(emit, "text", "symbol+offset (object)", or_null(stack->frames[j].text));
            emit_close(emit);
        }
        emit_close(emit);
        emit_close(emit);
    }
    emit_close(emit);
}

static void write_settings(struct emit *emit, const struct vramgc_file *file) {
    size_t count = emit_list(emit, "settings", "as they were in force", file->setting_count);
    for (size_t i = 0; i < count; i++) {
        emit_open_line(emit, NULL, "one setting");
        emit_text(emit, "name", "without VRAMGC_, in lower case", file->settings[i].name);
        emit_text(emit, "value", "in force", file->settings[i].value);
        emit_text(emit, "origin", "default; environment; invalid: the default is in force",
                  file->settings[i].origin);
        emit_close(emit);
    }
    emit_close(emit);
}

/* The file names all functions of hooks.def, those too that are only called by vramgc itself or
 * whose calls are too many to be counted: a 0 would be untrue there. */
static void write_hooks(struct emit *emit, const struct vramgc_file *file) {
    size_t counted[VRAMGC_MAX_HOOKS] = {0}, count = 0;
    for (size_t i = 0; i < file->hook_count; i++)
        if (file->hooks[i].calls > 0)
            counted[count++] = i;
    count = emit_list(emit, "hooks",
                      "functions of CUDA that were intercepted and called; block events of PyTorch "
                      "are in block_allocs and block_frees",
                      count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_hook *hook = &file->hooks[counted[i]];
        emit_open_line(emit, NULL, "one function");
        emit_text(emit, "name", "its symbol", hook->name);
        emit_number(emit, "calls", UNIT_COUNT, "seen", hook->calls);
        emit_number(emit, "failed", UNIT_COUNT, "that returned an error", hook->failed);
        emit_close(emit);
    }
    emit_close(emit);
}

static void write_end(struct emit *emit, const struct stats_file *record) {
    emit_open_line(emit, "end", "how the process ended");
    emit_text(emit, "how",
              "running; exited and killed: seen by the launcher; left: its exit handlers ran; "
              "replaced: went on by execv in another record; vanished: gone without exit handlers",
              stats_file_state_name(record->state));
    emit_integer_if(emit, "exit_code", "null: unknown", record->code >= 0, record->code);
    emit_integer_if(emit, "signal", "null: none or unknown", record->signal > 0, record->signal);
    emit_close(emit);
}

static void write_head(struct emit *emit, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    emit_text(emit, "file", "the statistics file", record->path);
    emit_number(emit, "pid", UNIT_ID, "process id", file->pid);
    emit_number(emit, "parent_pid", UNIT_ID, "of its parent", file->parent_pid);
    emit_text(emit, "executable", "path", or_null(file->executable));
    emit_text(emit, "working_folder", "path, as the record began", or_null(file->working_folder));
    emit_text(emit, "command_line",
              "arguments, and what is in COMMANDLINE_ARGS, separated by a space",
              or_null(file->command_line));
    emit_number(emit, "started_unix_ns", UNIT_ID, "start of the record since 1970, UTC",
                file->started_unix_ns);
    emit_number(emit, "elapsed_ns", UNIT_NS, "from the start of the record to its latest event",
                record->elapsed_ns);
    write_end(emit, record);
    emit_text(emit, "run_id", "of `vramgc run`", or_null(file->run_id));
    emit_text(emit, "version", "of the library that wrote the file", or_null(file->version));
    emit_number_if(emit, "cuda_driver", UNIT_ID, "such as 13000", file->cuda_driver > 0,
                   file->cuda_driver);
    emit_text(emit, "torch_version", "of PyTorch", or_null(file->torch_version));
    emit_text(emit, "alloc_conf", "PyTorch's allocator setting, null: none",
              or_null(file->alloc_conf));
    emit_text(emit, "alloc_conf_why", "who chose it", or_null(file->alloc_conf_why));
    emit_text(emit, "mode", "what mode auto became", or_null(file->mode));
    emit_text(emit, "mode_why", "why", or_null(file->mode_why));
    emit_number(emit, "capturing", UNIT_COUNT, "stream captures under way", file->capturing);
}

static void write_process(struct emit *emit, const struct stats_file *record) {
    emit_open(emit, NULL, "one process that used CUDA");
    write_head(emit, record);
    write_process_stats(emit, &record->file->process);
    host_fields(emit, &record->file->host);
    write_settings(emit, record->file);
    write_devices(emit, record->file);
    write_actions(emit, record);
    write_refusals(emit, record);
    write_marks(emit, record);
    jobs_fields(emit, record);
    write_stacks(emit, record->file);
    who_sites(emit, record->file);
    write_hooks(emit, record->file);
    emit_close(emit);
}

static void write_launch(struct emit *emit, const struct launch_facts *launch) {
    bool known = launch != NULL;
    int status = known ? launch->wait_status : 0;
    emit_open(emit, "run", "what `vramgc run` saw; all null in `vramgc report`");
    emit_text(emit, "id", "run_id of its processes", known ? launch->run_id : NULL);
    emit_text(emit, "command", "arguments separated by one space", known ? launch->command : NULL);
    emit_integer_if(emit, "exit_code", "of the command", known && WIFEXITED(status),
                    WEXITSTATUS(status));
    emit_integer_if(emit, "signal", "that ended the command", known && WIFSIGNALED(status),
                    WTERMSIG(status));
    emit_number_if(emit, "elapsed_ns", UNIT_NS, "of the command", known,
                   known ? launch->elapsed_ns : 0);
    emit_close(emit);
}

static void write_verdict(struct emit *emit, const struct verdict *verdict) {
    char words[sizeof *verdict];
    struct text text = TEXT_IN(words);
    verdict_write(&text, verdict);
    emit_text(
        emit, "code",
        "none, unknown, ok, idle, crashed; of an out-of-memory: fragmentation, full, limit, "
        "pool, private_pool, growth, other_process, other_code, too_large, driver, host_memory",
        verdict_name(verdict->code));
    emit_text(emit, "text", "in words", words);
    emit_text(emit, "what", "what happened", or_null(verdict->what));
    emit_text(emit, "sum", "who had the card when memory was refused", or_null(verdict->sum));
    emit_text(emit, "cause", "why", or_null(verdict->cause));
    emit_text(emit, "do", "what helps", or_null(verdict->todo));
    emit_text(emit, "note", "what else there is to know", or_null(verdict->note));
    emit_close(emit);
}

void report_fields_write(FILE *out, enum emit_format format, struct stats_file *const *records,
                         size_t count, const struct launch_facts *launch) {
    struct emit emit;
    struct verdict verdict = verdict_of(records, count);
    emit_begin(&emit, out, format, "Statistics of GPU memory. Sizes are bytes, times nanoseconds.");
    emit_number(&emit, "schema", UNIT_ID, "version of this layout; fields are only added",
                REPORT_SCHEMA);
    emit_open_line(&emit, "tool", "what wrote the report");
    emit_text(&emit, "name", "vramgc", "vramgc");
    emit_text(&emit, "version", "of vramgc", VRAMGC_VERSION);
    emit_close(&emit);
    write_launch(&emit, launch);
    emit_open(&emit, "verdict", "what it means");
    write_verdict(&emit, &verdict);
    size_t items = emit_list(&emit, "processes", "a record for each process that used CUDA", count);
    for (size_t i = 0; i < items; i++)
        write_process(&emit, records[i]);
    emit_close(&emit);
    emit_end(&emit);
}

bool report_fields_schema(FILE *out) {
    struct stats_file *record = calloc(1, sizeof *record);
    struct vramgc_file *file = record ? calloc(1, sizeof *file) : NULL;
    if (file) {
        record->file = file;
        report_fields_write(out, EMIT_SCHEMA, &record, 1, NULL);
    }
    free(file);
    free(record);
    return file != NULL;
}
