/* export_torch.c: a snapshot as torch.cuda.memory._snapshot() makes it, for PyTorch's memory_viz.
 * With a map of an out-of-memory (VRAMGC_SNAPSHOT_ON_OOM) it has the segments and blocks of that
 * moment. Without one no single tensor is known: then all that was live is shown as one pile, which
 * grows and shrinks as the timeline does, and says so. */
#include "show/export_formats.h"
#include "read/block_files.h"
#include "read/complain.h"
#include "read/outfile.h"
#include "read/emit.h"
#include "judge/verdict.h"
#include "base/base.h"
#include "vramgc.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *const pile_says = "all live tensors together, as vramgc sampled them";

/* ---- parts of a snapshot ---- */

static void write_frame(struct emit *emit, const char *name) {
    emit_open(emit, NULL, "");
    emit_label(emit, "filename", "", "vramgc");
    emit_number(emit, "line", UNIT_ID, "", 0);
    emit_label(emit, "name", "", name);
    emit_close(emit);
}

static void write_frames(struct emit *emit, const char *name) {
    emit_list(emit, "frames", "", 1);
    if (name)
        write_frame(emit, name);
    emit_close(emit);
}

static void snapshot_block(struct emit *emit, uint64_t address, uint64_t bytes, const char *state,
                           const char *name) {
    emit_open(emit, NULL, "");
    emit_number(emit, "address", UNIT_ID, "", address);
    emit_number(emit, "size", UNIT_ID, "", bytes);
    emit_number(emit, "requested_size", UNIT_ID, "", bytes);
    emit_label(emit, "state", "", state);
    write_frames(emit, name);
    emit_close(emit);
}

struct segment {
    size_t device;
    uint64_t address, total_bytes, allocated_bytes, active_bytes, stream;
    bool expandable;
};

/* Opens the segment and the list of its blocks. */
static void open_segment(struct emit *emit, const struct segment *segment, const char *name) {
    emit_open(emit, NULL, "");
    emit_number(emit, "device", UNIT_ID, "", segment->device);
    emit_number(emit, "address", UNIT_ID, "", segment->address);
    emit_number(emit, "total_size", UNIT_ID, "", segment->total_bytes);
    emit_number(emit, "allocated_size", UNIT_ID, "", segment->allocated_bytes);
    emit_number(emit, "active_size", UNIT_ID, "", segment->active_bytes);
    emit_number(emit, "requested_size", UNIT_ID, "", segment->allocated_bytes);
    emit_number(emit, "stream", UNIT_ID, "", segment->stream);
    emit_label(emit, "segment_type", "", segment->total_bytes > 2 << 20 ? "large" : "small");
    emit_number(emit, "is_expandable", UNIT_ID, "", segment->expandable);
    write_frames(emit, name);
    emit_list(emit, "blocks", "", 1);
}

static void close_segment(struct emit *emit) {
    emit_close(emit);
    emit_close(emit);
}

/* Opens an event of the trace; what is common to all. */
static void open_event(struct emit *emit, const char *action, uint64_t address, uint64_t bytes,
                       uint64_t time_ns) {
    emit_open(emit, NULL, "");
    emit_label(emit, "action", "", action);
    emit_number(emit, "addr", UNIT_ID, "", address);
    emit_number(emit, "size", UNIT_ID, "", bytes);
    emit_number(emit, "stream", UNIT_ID, "", 0);
    emit_number(emit, "time_us", UNIT_ID, "", time_ns / 1000);
}

/* ---- without a map: the pile ---- */

/* Where it begins: any address but 0 serves, which viewers take for none. */
enum { PILE_AT = 0x10000000 };

struct pile {
    uint64_t heights[VRAMGC_MAX_SAMPLES + 1]; /* of what lies below each piece; then of all */
    size_t count;
};

static void write_piece_event(struct emit *emit, const struct pile *pile, const char *action,
                              uint64_t time_ns) {
    uint64_t below = pile->heights[pile->count - 1], top = pile->heights[pile->count];
    open_event(emit, action, PILE_AT + below, top - below, time_ns);
    write_frames(emit, pile_says);
    emit_close(emit);
}

/* Pieces go from the top until the pile is no higher, and one comes to make up for the rest. */
static void change_pile(struct emit *emit, struct pile *pile, uint64_t bytes, uint64_t time_ns) {
    while (pile->count > 0 && pile->heights[pile->count] > bytes) {
        write_piece_event(emit, pile, "free_requested", time_ns);
        write_piece_event(emit, pile, "free_completed", time_ns);
        pile->count--;
    }
    if (pile->heights[pile->count] >= bytes)
        return;
    pile->heights[++pile->count] = bytes;
    write_piece_event(emit, pile, "alloc", time_ns);
}

/* ---- out of memory ---- */

/* The call stack that was kept at the refusal. NULL: none, or no refusal. */
static const struct vramgc_stack *stack_of(const struct vramgc_file *file,
                                           const struct vramgc_refusal *refusal) {
    uint64_t index = refusal ? (uint64_t)refusal->stack - 1 : UINT64_MAX;
    return index < file->stack_count ? &file->stacks[index] : NULL;
}

static void write_oom(struct emit *emit, uint64_t time_ns, uint64_t request_bytes,
                      uint64_t free_bytes, const struct vramgc_stack *stack) {
    open_event(emit, "oom", 0, request_bytes, time_ns);
    emit_number(emit, "device_free", UNIT_ID, "", free_bytes);
    emit_list(emit, "frames", "", 1);
    for (size_t i = 0; stack && i < stack->frame_count; i++)
        write_frame(emit, stack->frames[i].text);
    emit_close(emit);
    emit_close(emit);
}

/* The device's refusals from *next on that came before the time. */
static void write_ooms_before(struct emit *emit, const struct stats_file *record, size_t device,
                              uint64_t before_ns, size_t *next) {
    for (; *next < record->refusal_count && record->refusals[*next]->time_ns < before_ns; ++*next)
        if (record->refusals[*next]->device == device && !record->refusals[*next]->granted)
            write_oom(emit, record->refusals[*next]->time_ns,
                      record->refusals[*next]->request_bytes, record->refusals[*next]->free_bytes,
                      stack_of(record->file, record->refusals[*next]));
}

static void write_pile_trace(struct emit *emit, const struct stats_file *record, size_t index,
                             struct pile *pile) {
    const struct vramgc_device *device = &record->file->devices[index];
    size_t next = 0;
    for (size_t i = 0; i < device->sample_count; i++) {
        write_ooms_before(emit, record, index, device->samples[i].time_ns, &next);
        change_pile(emit, pile, device->samples[i].allocated_bytes, device->samples[i].time_ns);
    }
    write_ooms_before(emit, record, index, UINT64_MAX, &next);
}

/* The pile as it is at last, in a segment that held it when it was highest. */
static void write_pile(struct emit *emit, const struct vramgc_device *device, size_t index,
                       const struct pile *pile) {
    uint64_t live = pile->heights[pile->count], highest = 0;
    for (size_t i = 0; i < device->sample_count; i++)
        highest = max_u64(highest, device->samples[i].allocated_bytes);
    const struct segment segment = {index, PILE_AT, highest, live, live, 0, false};
    if (highest == 0)
        return;
    open_segment(emit, &segment, pile_says);
    for (size_t i = 0; i < pile->count; i++)
        snapshot_block(emit, PILE_AT + pile->heights[i], pile->heights[i + 1] - pile->heights[i],
                       "active_allocated", pile_says);
    if (highest > live)
        snapshot_block(emit, PILE_AT + live, highest - live, "inactive", NULL);
    close_segment(emit);
}

/* ---- with a map ---- */

static const char *state_name(uint32_t state) {
    return state == VRAMGC_BLOCK_ALLOCATED ? "active_allocated"
           : state == VRAMGC_BLOCK_PENDING ? "active_pending_free"
                                           : "inactive";
}

/* The blocks from first on that lie in its segment; how many. */
static size_t snapshot_segment(struct emit *emit, const struct vramgc_block *first, size_t count,
                               size_t device) {
    struct segment segment = {.device = device,
                              .address = first->segment_address,
                              .stream = first->stream,
                              .expandable = first->expandable};
    size_t n = 0;
    for (; n < count && first[n].segment_address == first->segment_address; n++) {
        segment.total_bytes += first[n].bytes;
        segment.active_bytes += first[n].state == VRAMGC_BLOCK_FREE ? 0 : first[n].bytes;
        segment.allocated_bytes += first[n].state == VRAMGC_BLOCK_ALLOCATED ? first[n].bytes : 0;
    }
    open_segment(emit, &segment, NULL);
    for (size_t i = 0; i < n; i++)
        snapshot_block(emit, first[i].address, first[i].bytes, state_name(first[i].state), NULL);
    close_segment(emit);
    return n;
}

/* The out-of-memory that the map is of; PyTorch may not have asked the driver before. */
static void write_map_trace(struct emit *emit, const struct stats_file *record,
                            const struct vramgc_map *head) {
    const struct vramgc_refusal *refusal = NULL;
    for (size_t i = 0; i < record->refusal_count; i++)
        if (record->refusals[i]->device == head->device &&
            record->refusals[i]->request_bytes == head->request_bytes)
            refusal = record->refusals[i];
    write_oom(emit, head->time_ns, head->request_bytes, head->free_bytes,
              stack_of(record->file, refusal));
}

/* ---- the snapshot ---- */

static void write_device_traces(struct emit *emit, const struct stats_file *record,
                                const struct block_maps *maps, struct pile *piles) {
    emit_list(emit, "device_traces", "", 1);
    for (size_t i = 0; i < record->file->device_count; i++) {
        emit_list(emit, NULL, "", 1);
        if (maps->of[i].blocks)
            write_map_trace(emit, record, &maps->of[i].head);
        else
            write_pile_trace(emit, record, i, &piles[i]);
        emit_close(emit);
    }
    emit_close(emit);
}

static void write_segments(struct emit *emit, const struct stats_file *record,
                           const struct block_maps *maps, const struct pile *piles) {
    emit_list(emit, "segments", "", 1);
    for (size_t i = 0; i < record->file->device_count; i++) {
        const struct block_map *map = &maps->of[i];
        for (size_t j = 0; map->blocks && j < map->head.count;)
            j += snapshot_segment(emit, &map->blocks[j], map->head.count - j, i);
        if (!map->blocks)
            write_pile(emit, &record->file->devices[i], i, &piles[i]);
    }
    emit_close(emit);
}

void export_torch(FILE *out, const struct records *records) {
    const struct stats_file *record = records->list[verdict_record(records->list, records->count)];
    struct pile *piles = calloc(VRAMGC_MAX_DEVICES, sizeof *piles);
    if (!piles) {
        complain("no memory");
        return;
    }
    struct block_maps maps = block_maps_load(record);
    struct emit emit;
    emit_begin(&emit, out, EMIT_PICKLE, "");
    write_device_traces(&emit, record, &maps, piles);
    write_segments(&emit, record, &maps, piles);
    emit_open(&emit, "allocator_settings", "");
    emit_label(&emit, "PYTORCH_ALLOC_CONF", "", record->file->alloc_conf);
    emit_close(&emit);
    emit_list(&emit, "external_annotations", "", 0);
    emit_close(&emit);
    emit_end(&emit);
    block_maps_free(&maps);
    free(piles);
}

void export_torch_beside(struct stats_file *record) {
    char *path = NULL;
    const struct records one = {.list = &record, .count = 1};
    struct outfile file;
    if (!block_maps_exist(record) || asprintf(&path, "%s.pickle", record->path) < 0)
        return;
    if (outfile_open(&file, path, false)) {
        fchmod(fileno(file.stream), S_IRUSR | S_IWUSR); /* as the file that it lies beside */
        export_torch(file.stream, &one);
        if (outfile_close(&file))
            complain("out of memory: %s shows the blocks, on pytorch.org/memory_viz", path);
    }
    free(path);
}
