/* report_fields.c: see report_fields.h. Descriptions of figures come from stats.def and
 * derived.def. */
#include "show/report_fields.h"
#include "read/derived.h"
#include "show/record_fields.h"
#include "judge/who.h"
#include "base/parse.h"
#include "judge/verdict.h"

#include <stdlib.h>
#include <sys/wait.h>

static void write_gauge_members(struct emit *emit, enum unit unit,
                                const struct vramgc_gauge *gauge) {
    emit_number(emit, "current", unit, "at the end, or now", gauge->current);
    emit_number(emit, "peak", unit, "highest value so far", gauge->peak);
}

static void write_gauge(struct emit *emit, const char *name, enum unit unit, const char *help,
                        const struct vramgc_gauge *gauge) {
    emit_open_line(emit, name, help);
    write_gauge_members(emit, unit, gauge);
    emit_close(emit);
}

static void stat_fields(struct emit *emit, bool of_process, const void *stats) {
    for (size_t i = 0; i < stat_count; i++) {
        const struct stat_info *stat = &stat_table[i];
        if ((stat->group == STAT_PROCESS_TOTAL) != of_process)
            continue;
        struct vramgc_gauge value = stat_value(stat, stats);
        if (stat->group == STAT_DEVICE_GAUGE)
            write_gauge(emit, stat->name, stat->unit, stat->help, &value);
        else
            emit_number(emit, stat->name, stat->unit, stat->help, value.current);
    }
}

static void total_fields(struct emit *emit, const struct vramgc_process_stats *stats) {
    emit_open(emit, "totals", "figures kept once for the process");
    stat_fields(emit, true, stats);
    emit_close(emit);
}

static void derived_fields(struct emit *emit, const struct vramgc_device *device) {
    emit_open(emit, "derived", "figures computed from the others; null where unknown");
    for (size_t i = 0; i < DERIVED_COUNT; i++) {
        struct derived figure = derived_figure((enum derived_id)i, device);
        emit_real_if(emit, derived_table[i].name, derived_table[i].help, figure.known,
                     figure.value);
    }
    emit_close(emit);
}

static void sample_fields(struct emit *emit, const struct vramgc_device *device) {
    const struct vramgc_sample *first = device->samples;
    const size_t stride = sizeof *first, count = device->sample_count;
    emit_open(emit, "samples", "the timeline, a column for each figure: its highest");
    emit_number(emit, "step_ns", UNIT_NS, "least time between two points", device->sample_step_ns);
    emit_numbers(emit, "time_ns", "since the start of the record", &first->time_ns, stride, count);
    emit_numbers(emit, "held_bytes", "as above", &first->held_bytes, stride, count);
    emit_numbers(emit, "reserved_bytes", "as above", &first->reserved_bytes, stride, count);
    emit_numbers(emit, "allocated_bytes", "live_bytes", &first->allocated_bytes, stride, count);
    emit_numbers(emit, "used_bytes", "as above", &first->used_bytes, stride, count);
    emit_numbers(emit, "others_bytes", "as above", &first->others_bytes, stride, count);
    emit_numbers(emit, "held_low_bytes", "the lowest", &first->held_low_bytes, stride, count);
    emit_numbers(emit, "live_low_bytes", "the lowest", &first->allocated_low_bytes, stride, count);
    emit_numbers(emit, "live_ms_sum_kib", "over ms", &first->allocated_ms_sum_kib, stride, count);
    emit_numbers(emit, "ms", "how long it was looked at", &first->ms, stride, count);
    emit_close(emit);
}

static void division_fields(struct emit *emit, const char *name, const char *help,
                            struct division division) {
    emit_open_line(emit, name, help);
    emit_number(emit, "held_bytes", UNIT_BYTES, "by this process", division.held_bytes);
    emit_number_if(emit, "others_bytes", UNIT_BYTES, "by others and the driver", division.known,
                   division.others_bytes);
    emit_number_if(emit, "free_bytes", UNIT_BYTES, "free", division.known, division.free_bytes);
    emit_close(emit);
}

static void other_card_fields(struct emit *emit, const struct vramgc_other_card *card) {
    bool known = card->time_ns > 0;
    emit_open_line(
        emit, "other_card",
        "the card of the machine with most free memory, this device aside, when some was "
        "last refused, by NVML");
    emit_number_if(emit, "number", UNIT_ID, "as nvidia-smi counts", known, card->number);
    emit_text(emit, "name", "null: not known", card->name);
    emit_number_if(emit, "free_bytes", UNIT_BYTES, "of that card", known, card->free_bytes);
    emit_close(emit);
}

static void floor_fields(struct emit *emit, const struct vramgc_floors *floors) {
    emit_open(emit, "floors", "how low live memory fell each time that much had been freed");
    emit_number(emit, "turns", UNIT_COUNT, "how often that was", floors->turns);
    emit_number(emit, "merged", UNIT_COUNT, "turns of which each floor is the lowest",
                floors->merged);
    emit_numbers(emit, "bytes", "oldest first", floors->bytes, sizeof floors->bytes[0],
                 floors->count);
    emit_close(emit);
}

static void library_fields(struct emit *emit, const struct vramgc_file *file,
                           const struct vramgc_device *device) {
    size_t used[VRAMGC_MAX_LIBRARIES] = {0}, count = 0;
    for (size_t i = 1; i < file->library_count; i++)
        if (device->of_libraries[i].peak > 0)
            used[count++] = i;
    count = emit_list(emit, "libraries", "whose other_bytes are, by the file that called", count);
    for (size_t i = 0; i < count; i++) {
        emit_open_line(emit, NULL, "one library");
        emit_text(emit, "name", "of its file", library_name(file, used[i]));
        write_gauge_members(emit, UNIT_BYTES, &device->of_libraries[used[i]]);
        emit_close(emit);
    }
    emit_close(emit);
}

static void owner_fields(struct emit *emit, const struct vramgc_file *file, const char *name,
                         const char *help, const struct vramgc_owners *owners) {
    emit_open(emit, name, help);
    emit_number(emit, "live_bytes", UNIT_BYTES, "of everybody together", owners->live_bytes);
    record_list_write(emit, &owner_type, file, RECORDS_IN(owners->list, owners->count));
    emit_close(emit);
}

/* Of this card; and who gave memory of it, of which peer_bytes tells how much. */
static void limit_fields(struct emit *emit, const struct vramgc_file *file,
                         const struct vramgc_device *device) {
    const struct vramgc_giver *giver = &device->giver;
    emit_number(emit, "headroom_bytes", UNIT_BYTES,
                "VRAMGC_HEADROOM as it is in force: so much stays free for others",
                amount_bytes(file->limits.headroom, device->total_bytes));
    emit_number_if(emit, "cap_bytes", UNIT_BYTES,
                   "VRAMGC_CAP as it is in force: the card that the program sees; null: all of it",
                   file->limits.cap > 0, amount_bytes(file->limits.cap, device->total_bytes));
    emit_number_if(emit, "giver_pid", UNIT_ID,
                   "the program that last gave idle memory to this one (peer_bytes), null: none",
                   giver->pid > 0, giver->pid);
    emit_text(emit, "giver_name", "its name", giver->pid ? giver->name : NULL);
}

/* Of a list of one in the schema there is no record. */
static void call_fields(struct emit *emit, const struct vramgc_file *file, const char *name,
                        const char *help, const struct vramgc_owners *owners,
                        const struct vramgc_owners *calls) {
    struct who_stack stack;
    size_t count = 0;
    for (size_t i = 0; who_stack(file, owners, calls, i, &stack); i++)
        count += stack.bytes > 0;
    count = emit_list(emit, name, help, count);
    for (size_t i = 0; count > 0; i++) {
        who_stack(file, owners, calls, i, &stack);
        if (stack.bytes == 0 && emit->format != EMIT_SCHEMA)
            continue;
        emit_open(emit, NULL, "one call stack of Python");
        emit_numbers(emit, "sites", "indexes in sites, the outermost caller first, the owner last",
                     stack.sites, sizeof *stack.sites, stack.depth);
        emit_number(emit, "bytes", UNIT_BYTES, "live", stack.bytes);
        emit_close(emit);
        count--;
    }
    emit_close(emit);
}

static void device_fields(struct emit *emit, const struct vramgc_file *file, size_t index) {
    const struct vramgc_device *device = &file->devices[index];
    char capability[32];
    snprintf(capability, sizeof capability, "%lu.%lu", (unsigned long)device->compute_major,
             (unsigned long)device->compute_minor);
    emit_open(emit, NULL, "one device that the process used");
    emit_number(emit, "index", UNIT_ID, "CUDA's index in this process", index);
    emit_text(emit, "name", "as the driver calls it", device->name);
    emit_text(emit, "bus_id", "PCI bus id", device->bus_id);
    emit_text(emit, "compute_capability", "MAJOR.MINOR",
              device->compute_major > 0 ? capability : NULL);
    emit_number_if(emit, "total_bytes", UNIT_BYTES, "memory of the device", device->total_bytes > 0,
                   device->total_bytes);
    limit_fields(emit, file, device);
    stat_fields(emit, false, &device->stats);
    derived_fields(emit, device);
    division_fields(emit, "division_at_peak",
                    "the card when the process held most; the parts add up to total_bytes",
                    division_at_peak(device));
    division_fields(emit, "division_at_end", "the card at the end; adds up to total_bytes",
                    division_at_end(device));
    emit_number_if(
        emit, "rest_ns", UNIT_NS,
        "when the program last rested, or Python began to end, since the start of the record",
        device->rest.time_ns > 0, device->rest.time_ns);
    division_fields(emit, "division_at_rest", "the card then; adds up to total_bytes",
                    division_at_rest(device));
    library_fields(emit, file, device);
    record_list_write(emit, &neighbour_type, file,
                      RECORDS_IN(device->neighbours.list, device->neighbours.count));
    other_card_fields(emit, &device->other_card);
    floor_fields(emit, &device->floors);
    owner_fields(emit, file, "owners_at_peak", "whose live memory was at its peak",
                 &device->owners_at_peak);
    owner_fields(emit, file, "owners_at_oom", "whose it was at the latest out-of-memory",
                 &device->owners_at_oom);
    call_fields(emit, file, "calls_at_peak",
                "live memory at its peak by who called whom; an owner alone: not known",
                &device->owners_at_peak, &device->calls_at_peak);
    call_fields(emit, file, "calls_at_oom", "the same at the latest out-of-memory",
                &device->owners_at_oom, &device->calls_at_oom);
    owner_fields(emit, file, "owners_grown", "by how much more stayed with each than earlier",
                 &device->owners_grown);
    record_list_write(emit, &who_type, file, RECORDS_IN(device->who, device->who_count));
    sample_fields(emit, device);
    emit_close(emit);
}

static void devices_fields(struct emit *emit, const struct vramgc_file *file) {
    size_t used[VRAMGC_MAX_DEVICES] = {0}, count = 0;
    for (size_t i = 0; i < file->device_count; i++)
        if (file->devices[i].present)
            used[count++] = i;
    count = emit_list(emit, "devices", "those that the process used", count);
    for (size_t i = 0; i < count; i++)
        device_fields(emit, file, used[i]);
    emit_close(emit);
}

static void stack_fields(struct emit *emit, const struct vramgc_file *file) {
    size_t count =
        emit_list(emit, "stacks", "call stacks that asked for memory", file->stack_count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_stack *stack = &file->stacks[i];
        emit_open(emit, NULL, "one call stack");
        emit_number(emit, "count", UNIT_COUNT, "allocations made from it", stack->count);
        emit_number(emit, "bytes", UNIT_BYTES, "asked for in all", stack->bytes);
        record_list_write(emit, &frame_type, file, RECORDS_IN(stack->frames, stack->frame_count));
        emit_close(emit);
    }
    emit_close(emit);
}

/* The file names all functions of hooks.def, those too that are only called by vramgc itself or
 * whose calls are too many to be counted: a 0 would be untrue there. */
static void hook_fields(struct emit *emit, const struct vramgc_file *file) {
    const struct vramgc_hook *called[VRAMGC_MAX_HOOKS];
    size_t count = 0;
    for (size_t i = 0; i < file->hook_count; i++)
        if (file->hooks[i].calls > 0)
            called[count++] = &file->hooks[i];
    record_list_write(emit, &hook_type, file, (struct record_list){called, count, 0});
}

static void end_fields(struct emit *emit, const struct stats_file *record) {
    emit_open_line(emit, "end", "how the process ended");
    emit_text(emit, "how",
              "running; exited; killed: by a signal that the launcher saw, or the script that it "
              "started; replaced: went on by execv in another record; vanished: by a signal that "
              "neither saw",
              stats_file_state_name(record->state));
    emit_number_if(emit, "exit_code", UNIT_ID, "null: unknown", record->code >= 0,
                   (uint64_t)record->code);
    emit_number_if(emit, "signal", UNIT_ID, "null: none or unknown", record->signal > 0,
                   (uint64_t)record->signal);
    emit_close(emit);
}

static void head_fields(struct emit *emit, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    emit_text(emit, "file", "the statistics file", record->path);
    emit_number(emit, "pid", UNIT_ID, "process id", file->pid);
    emit_number(emit, "parent_pid", UNIT_ID, "of its parent", file->parent_pid);
    emit_text(emit, "executable", "path", file->executable);
    emit_text(emit, "host_name", "of the machine, or container", file->host_name);
    emit_text(emit, "working_folder", "path, as the record began", file->working_folder);
    emit_text(emit, "command_line",
              "arguments, and what is in COMMANDLINE_ARGS, separated by a space",
              file->command_line);
    emit_number(emit, "started_unix_ns", UNIT_ID, "start of the record since 1970, UTC",
                file->started_unix_ns);
    emit_number(emit, "elapsed_ns", UNIT_NS, "from the start of the record to its latest event",
                record->elapsed_ns);
    emit_number_if(emit, "python_ended_ns", UNIT_NS,
                   "since the start of the record: what came later Python freed as it ended",
                   file->python_ended_ns > 0, file->python_ended_ns);
    emit_number(emit, "before_ns", UNIT_NS, "how long the process had run as the record began",
                file->before_ns);
    end_fields(emit, record);
    emit_bool(emit, "stop_asked", "`vramgc run` saw Ctrl-C, or another signal that ends programs",
              file->stop_asked);
    emit_text(emit, "run_id", "of `vramgc run`", file->run_id);
    emit_text(emit, "version", "of the library that wrote the file", file->version);
    emit_number_if(emit, "cuda_driver", UNIT_ID, "such as 13000", file->cuda_driver > 0,
                   file->cuda_driver);
    emit_text(emit, "torch_version", "of PyTorch", file->torch_version);
    emit_text(emit, "alloc_conf", "PyTorch's allocator setting, null: none", file->alloc_conf);
    emit_text(emit, "alloc_conf_why", "who chose it", file->alloc_conf_why);
    emit_text(emit, "mode", "what mode auto became", file->mode);
    emit_text(emit, "mode_why", "why", file->mode_why);
    emit_number(emit, "capturing", UNIT_COUNT, "stream captures under way", file->capturing);
}

static void write_entries(struct emit *emit, const struct record_type *type,
                          const struct stats_file *record) {
    record_list_write(emit, type, record->file, record_entries(record, type));
}

static void process_fields(struct emit *emit, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    emit_open(emit, NULL, "one process that used CUDA");
    head_fields(emit, record);
    total_fields(emit, &file->process);
    host_fields(emit, &file->host);
    record_list_write(emit, &setting_type, file, RECORDS_IN(file->settings, file->setting_count));
    devices_fields(emit, file);
    write_entries(emit, &action_type, record);
    write_entries(emit, &refusal_type, record);
    write_entries(emit, &mark_type, record);
    write_entries(emit, &job_type, record);
    stack_fields(emit, file);
    record_list_write(emit, &site_type, file, RECORDS_IN(file->sites, file->site_count));
    hook_fields(emit, file);
    emit_close(emit);
}

static void launch_fields(struct emit *emit, const struct launch_facts *launch) {
    bool known = launch != NULL;
    int status = known ? launch->wait_status : 0;
    emit_open(emit, "run", "what `vramgc run` saw; all null in `vramgc report`");
    emit_text(emit, "id", "run_id of its processes", known ? launch->run_id : NULL);
    emit_text(emit, "command", "arguments separated by one space", known ? launch->command : NULL);
    emit_number_if(emit, "exit_code", UNIT_ID, "of the command", known && WIFEXITED(status),
                   (uint64_t)WEXITSTATUS(status));
    emit_number_if(emit, "signal", UNIT_ID, "that ended the command", known && WIFSIGNALED(status),
                   (uint64_t)WTERMSIG(status));
    emit_number_if(emit, "elapsed_ns", UNIT_NS, "of the command", known,
                   known ? launch->elapsed_ns : 0);
    emit_close(emit);
}

static void verdict_fields(struct emit *emit, const struct verdict *verdict) {
    char words[sizeof *verdict];
    struct text text = TEXT_IN(words);
    verdict_write(&text, verdict);
    emit_text(
        emit, "code",
        "none, unknown, ok, grows, idle, crashed; of an out-of-memory: fragmentation, full, limit, "
        "pool, private_pool, growth, other_process, other_code, too_large, driver, host_memory",
        verdict_name(verdict));
    emit_text(emit, "text", "in words", words);
    emit_text(emit, "what", "what happened", verdict->what);
    emit_text(emit, "sum", "who had the card when memory was refused", verdict->sum);
    emit_text(emit, "cause", "why", verdict->cause);
    emit_text(emit, "do", "what helps", verdict->todo);
    emit_text(emit, "note", "what else there is to know", verdict->note);
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
    launch_fields(&emit, launch);
    emit_open(&emit, "verdict", "what it means");
    verdict_fields(&emit, &verdict);
    size_t items = emit_list(&emit, "processes", "a record for each process that used CUDA", count);
    for (size_t i = 0; i < items; i++)
        process_fields(&emit, records[i]);
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
