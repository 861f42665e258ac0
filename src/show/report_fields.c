/* report_fields.c: see report_fields.h. It writes the rows of fields.def, and the figures of
 * stats.def and derived.def; how a format writes a field is read/emit.c's. */
#include "show/report_fields.h"
#include "base/base.h"
#include "base/parse.h"
#include "judge/cause.h"
#include "judge/verdict.h"
#include "judge/who.h"
#include "read/derived.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* ---- figures of the tables ---- */

static void gauge_fields(struct emit *emit, enum unit unit, const struct vramgc_gauge *gauge) {
    emit_number(emit, "current", unit, "at the end, or now", gauge->current);
    emit_number(emit, "peak", unit, "highest value so far", gauge->peak);
}

static void stat_fields(struct emit *emit, bool of_process, const void *stats) {
    for (size_t i = 0; i < stat_count; i++) {
        const struct stat_info *stat = &stat_table[i];
        if ((stat->group == STAT_PROCESS_TOTAL) != of_process)
            continue;
        struct vramgc_gauge value = stat_value(stat, stats);
        if (stat->group != STAT_DEVICE_GAUGE) {
            emit_number(emit, stat->name, stat->unit, stat->help, value.current);
            continue;
        }
        emit_open_line(emit, stat->name, stat->help);
        gauge_fields(emit, stat->unit, &value);
        emit_close(emit);
    }
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

static void look_fields(struct emit *emit, const struct vramgc_host_look *look) {
    bool known = look->time_ns > 0;
    emit_number_if(emit, "time_ns", UNIT_NS, "since the start of the record", known, look->time_ns);
    for (size_t i = 0; i < HOST_FIGURES; i++) {
        const struct host_figure *figure = &host_figures[i];
        uint64_t value = host_figure(figure, look);
        emit_number_if(emit, figure->name, UNIT_BYTES, figure->help,
                       known && (value || !figure->none_is_0), value);
    }
}

/* ---- lists of records ---- */

/* Where records lie: in an array, or behind an array of pointers. */
struct record_list {
    const void *first;
    size_t count;
    size_t bytes; /* of a record; 0: pointers */
};

/* Those that struct stats_file lists, oldest first. */
static struct record_list listed(const struct stats_file *record, const struct record_type *type) {
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
static void write_records(struct emit *emit, const struct record_type *type,
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

/* ---- what takes more than a row ---- */

static void who_owners(struct emit *emit, const struct vramgc_who *who) {
    uint64_t sites[VRAMGC_WHO_OWNERS], bytes[VRAMGC_WHO_OWNERS];
    for (uint32_t i = 0; i < VRAMGC_WHO_OWNERS; i++) {
        sites[i] = who->sites[i];
        bytes[i] = who_bytes(who, i);
    }
    emit_numbers(emit, "sites", "indexes in sites, of the largest first", sites, sizeof *sites,
                 who->count);
    emit_numbers(emit, "bytes", "of each", bytes, sizeof *bytes, who->count);
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
        gauge_fields(emit, UNIT_BYTES, &device->of_libraries[used[i]]);
        emit_close(emit);
    }
    emit_close(emit);
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

static struct figure show_capability(const struct vramgc_device *device) {
    if (device->compute_major == 0)
        return (struct figure){""};
    return show_words("%u.%u", device->compute_major, device->compute_minor);
}

static void verdict_words(struct emit *emit, const struct verdict *verdict) {
    TEXT_OVER(text, words, sizeof *verdict);
    verdict_write(&text, verdict);
    emit_text(emit, "text", "in words", words);
}

/* ---- the rows of fields.def: NAME_fields() writes those of an object ---- */

static void devices_fields(struct emit *emit, const struct vramgc_file *file);
static void stacks_fields(struct emit *emit, const struct vramgc_file *file);
static void hooks_fields(struct emit *emit, const struct vramgc_file *file);

#define FIELDS(name, type)                                                                         \
    static void name##_fields(struct emit *emit,                                                   \
                              __attribute__((unused)) const struct vramgc_file *file,              \
                              const type *r) {
#define RECORD(kind, ...)                                                                          \
    static void kind##_fields(struct emit *, const struct vramgc_file *,                           \
                              const struct vramgc_##kind *);                                       \
    static void any_##kind(struct emit *emit, const struct vramgc_file *file,                      \
                           const void *record) {                                                   \
        kind##_fields(emit, file, record);                                                         \
    }                                                                                              \
    TYPE(kind, any_##kind, __VA_ARGS__);                                                           \
    FIELDS(kind, struct vramgc_##kind)
#define TYPE(kind, function, name, about, about_one, ...)                                          \
    const struct record_type kind##_type = {                                                       \
        .list = name, .help = about, .help_of_one = about_one, .write = function, __VA_ARGS__}
#define END() }
#define LISTED_AS(pointers, number)                                                                \
    .entries = offsetof(struct stats_file, pointers), .count = offsetof(struct stats_file, number)

#define NUMBER(name, unit, value, help) emit_number(emit, #name, UNIT_##unit, help, value);
#define NUMBER_IF(name, unit, known, value, help)                                                  \
    emit_number_if(emit, #name, UNIT_##unit, help, known, value);
#define BYTES(name, help)           NUMBER(name, BYTES, r->name, help)
#define TIME(name, help)            NUMBER(name, NS, r->name, help)
#define COUNT(name, help)           NUMBER(name, COUNT, r->name, help)
#define ID(name, help)              NUMBER(name, ID, r->name, help)
#define BYTES_IF(name, known, help) NUMBER_IF(name, BYTES, known, r->name, help)
#define TIME_IF(name, known, help)  NUMBER_IF(name, NS, known, r->name, help)
#define ID_IF(name, known, help)    NUMBER_IF(name, ID, known, r->name, help)
#define REAL(name, figure, help)    emit_real_if(emit, #name, help, (figure).known, (figure).value);
#define BOOL(name, condition, help) emit_bool(emit, #name, help, condition);
#define TEXT(name, help)            TEXT_OF(name, r->name, help)
#define TEXT_OF(name, value, help)  emit_text(emit, #name, help, value);
#define LABEL(name, help)           emit_label(emit, #name, help, r->name);
#define NUMBERS(name, array, count, help)                                                          \
    emit_numbers(emit, #name, help, array, sizeof *(array), count);
#define COLUMN(name, member, help)                                                                 \
    emit_numbers(emit, #name, help, &r->samples->member, sizeof *r->samples, r->sample_count);

#define OPEN(name, help) emit_open(emit, #name, help);
#define LINE(name, help) emit_open_line(emit, #name, help);
#define CLOSE()          emit_close(emit);
#define DIVISION(name, help)                                                                       \
    LINE(name, help) division_fields(emit, file, &(struct division[]){name(r)}[0]);                \
    CLOSE()
#define OWNERS(name, help)                                                                         \
    OPEN(name, help) owners_fields(emit, file, &r->name);                                          \
    CLOSE()
#define CALLS(name, owners, help) call_fields(emit, file, #name, help, &r->owners, &r->name);
#define LOOK(name, look, help)                                                                     \
    OPEN(name, help) look_fields(emit, &file->host.look);                                          \
    CLOSE()
#define LIST(kind, array, count)                                                                   \
    write_records(emit, &kind##_type, file, (struct record_list){array, count, sizeof *(array)});
#define LISTED(kind) write_records(emit, &kind##_type, file, listed(r, &kind##_type));
#define PART(call)   call;
#include "show/fields.def"

/* ---- lists of objects ---- */

static void devices_fields(struct emit *emit, const struct vramgc_file *file) {
    const struct vramgc_device *used[VRAMGC_MAX_DEVICES] = {file->devices};
    size_t count = 0;
    for (size_t i = 0; i < file->device_count; i++)
        if (file->devices[i].present)
            used[count++] = &file->devices[i];
    count = emit_list(emit, "devices", "those that the process used", count);
    for (size_t i = 0; i < count; i++) {
        emit_open(emit, NULL, "one device that the process used");
        device_fields(emit, file, used[i]);
        emit_close(emit);
    }
    emit_close(emit);
}

static void stacks_fields(struct emit *emit, const struct vramgc_file *file) {
    size_t count =
        emit_list(emit, "stacks", "call stacks that asked for memory", file->stack_count);
    for (size_t i = 0; i < count; i++) {
        emit_open(emit, NULL, "one call stack");
        stack_fields(emit, file, &file->stacks[i]);
        emit_close(emit);
    }
    emit_close(emit);
}

/* The file names all functions of hooks.def, those too that are only called by vramgc itself or
 * whose calls are too many to be counted: a 0 would be untrue there. */
static void hooks_fields(struct emit *emit, const struct vramgc_file *file) {
    const struct vramgc_hook *called[VRAMGC_MAX_HOOKS];
    size_t count = 0;
    for (size_t i = 0; i < file->hook_count; i++)
        if (file->hooks[i].calls > 0)
            called[count++] = &file->hooks[i];
    write_records(emit, &hook_type, file, (struct record_list){called, count, 0});
}

void report_fields_write(FILE *out, enum emit_format format, struct stats_file *const *records,
                         size_t count, const struct launch_facts *launch) {
    static const struct launch_facts unknown = {.wait_status = 0x7f}; /* neither exit nor signal */
    struct emit emit;
    struct verdict verdict = verdict_of(records, count);
    emit_begin(&emit, out, format, "Statistics of GPU memory. Sizes are bytes, times nanoseconds.");
    emit_number(&emit, "schema", UNIT_ID, "version of this layout; fields are only added",
                REPORT_SCHEMA);
    emit_open_line(&emit, "tool", "what wrote the report");
    emit_text(&emit, "name", "vramgc", "vramgc");
    emit_text(&emit, "version", "of vramgc", VRAMGC_VERSION);
    emit_close(&emit);
    emit_open(&emit, "run", "what `vramgc run` saw; all null in `vramgc report`");
    launch_fields(&emit, NULL, launch ? launch : &unknown);
    emit_close(&emit);
    emit_open(&emit, "verdict", "what it means");
    verdict_fields(&emit, NULL, &verdict);
    emit_close(&emit);
    size_t items = emit_list(&emit, "processes", "a record for each process that used CUDA", count);
    for (size_t i = 0; i < items; i++) {
        emit_open(&emit, NULL, "one process that used CUDA");
        process_fields(&emit, records[i]->file, records[i]);
        emit_close(&emit);
    }
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
