/* export_folded.c: live memory as folded stacks: a line for each call stack of Python, its
 * functions from the outermost to the owner with ; between them, then a blank and bytes. What
 * flamegraph.pl, speedscope and inferno read. It computes nothing but what has no name. */
#include "show/export_formats.h"
#include "base/base.h"
#include "judge/who.h"

#include <inttypes.h>

/* A ; of a name would begin a function, and what is after the last blank are bytes. */
static void write_name(FILE *out, const char *name) {
    for (; *name; name++)
        fputc(*name == ';' ? ',' : *name, out);
}

/* Of several records or devices each is the root of its own. */
static void write_root(FILE *out, const struct records *records, const struct vramgc_file *file,
                       size_t device) {
    if (records->count > 1)
        fprintf(out, "process %" PRIu64 ";", file->pid);
    if (file->device_count > 1)
        fprintf(out, "GPU %zu;", device);
}

static void write_line(FILE *out, const struct vramgc_file *file, const struct who_stack *stack) {
    for (uint64_t i = 0; i < stack->depth; i++) {
        fputs(i > 0 ? ";" : "", out);
        write_name(out, who_name(&file->sites[stack->sites[i]]).text);
    }
    fprintf(out, " %" PRIu64 "\n", stack->bytes);
}

static void write_device(FILE *out, const struct records *records, const struct vramgc_file *file,
                         size_t index, bool at_oom) {
    const struct vramgc_device *device = &file->devices[index];
    const struct vramgc_owners *owners = at_oom ? &device->owners_at_oom : &device->owners_at_peak;
    const struct vramgc_owners *calls = at_oom ? &device->calls_at_oom : &device->calls_at_peak;
    uint64_t rest = owners->count > 0 ? owners->live_bytes : 0;
    struct who_stack stack;
    for (size_t i = 0; who_stack(file, owners, calls, i, &stack); i++) {
        if (stack.bytes == 0)
            continue;
        write_root(out, records, file, index);
        write_line(out, file, &stack);
        rest = minus_u64(rest, stack.bytes);
    }
    if (rest == 0)
        return;
    write_root(out, records, file, index);
    fprintf(out, "%s %" PRIu64 "\n", who_name(NULL).text, rest);
}

static void write_all(FILE *out, const struct records *records, bool at_oom) {
    for (size_t i = 0; i < records->count; i++)
        for (size_t j = 0; j < records->list[i]->file->device_count; j++)
            write_device(out, records, records->list[i]->file, j, at_oom);
}

void export_folded_peak(FILE *out, const struct records *records) {
    write_all(out, records, false);
}

void export_folded_oom(FILE *out, const struct records *records) {
    write_all(out, records, true);
}
