/* export_torch.c: a snapshot as torch.cuda.memory._snapshot() makes it, for PyTorch's memory_viz.
 * With a map of an out-of-memory (VRAMGC_SNAPSHOT_ON_OOM) it has the segments and blocks of that
 * moment. Without one no single tensor is known: then all that was live is shown as one pile, which
 * grows and shrinks as the timeline does, and says so. */
#include "show/export_formats.h"
#include "read/block_maps.h"
#include "read/complain.h"
#include "read/outfile.h"
#include "show/pickle.h"
#include "judge/verdict.h"
#include "base/base.h"
#include "vramgc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const pile_says = "all live tensors together, as vramgc sampled them";

/* ---- parts of a snapshot ---- */

static void write_frame(struct pickle *pickle, const char *name) {
    pickle_item(pickle);
    pickle_dict(pickle);
    pickle_set_text(pickle, "filename", "vramgc");
    pickle_set_number(pickle, "line", 0);
    pickle_set_text(pickle, "name", name);
    pickle_dict_end(pickle);
}

static void write_frames(struct pickle *pickle, const char *name) {
    pickle_text(pickle, "frames");
    pickle_list(pickle);
    if (name)
        write_frame(pickle, name);
    pickle_list_end(pickle);
}

static void write_block(struct pickle *pickle, uint64_t address, uint64_t bytes, const char *state,
                        const char *name) {
    pickle_item(pickle);
    pickle_dict(pickle);
    pickle_set_number(pickle, "address", address);
    pickle_set_number(pickle, "size", bytes);
    pickle_set_number(pickle, "requested_size", bytes);
    pickle_set_text(pickle, "state", state);
    write_frames(pickle, name);
    pickle_dict_end(pickle);
}

struct segment {
    size_t device;
    uint64_t address, total_bytes, allocated_bytes, active_bytes, stream;
    bool expandable;
};

/* Opens the segment and the list of its blocks. */
static void open_segment(struct pickle *pickle, const struct segment *segment, const char *name) {
    pickle_item(pickle);
    pickle_dict(pickle);
    pickle_set_number(pickle, "device", segment->device);
    pickle_set_number(pickle, "address", segment->address);
    pickle_set_number(pickle, "total_size", segment->total_bytes);
    pickle_set_number(pickle, "allocated_size", segment->allocated_bytes);
    pickle_set_number(pickle, "active_size", segment->active_bytes);
    pickle_set_number(pickle, "requested_size", segment->allocated_bytes);
    pickle_set_number(pickle, "stream", segment->stream);
    pickle_set_text(pickle, "segment_type", segment->total_bytes > 2 << 20 ? "large" : "small");
    pickle_set_number(pickle, "is_expandable", segment->expandable);
    write_frames(pickle, name);
    pickle_text(pickle, "blocks");
    pickle_list(pickle);
}

static void close_segment(struct pickle *pickle) {
    pickle_list_end(pickle);
    pickle_dict_end(pickle);
}

/* Opens an event of the trace; what is common to all. */
static void open_event(struct pickle *pickle, const char *action, uint64_t address, uint64_t bytes,
                       uint64_t time_ns) {
    pickle_item(pickle);
    pickle_dict(pickle);
    pickle_set_text(pickle, "action", action);
    pickle_set_number(pickle, "addr", address);
    pickle_set_number(pickle, "size", bytes);
    pickle_set_number(pickle, "stream", 0);
    pickle_set_number(pickle, "time_us", time_ns / 1000);
}

/* ---- without a map: the pile ---- */

enum { PILE_AT = 0x10000000 };

struct pile {
    uint64_t heights[VRAMGC_MAX_SAMPLES + 1]; /* of what lies below each piece; then of all */
    size_t count;
};

static void write_piece_event(struct pickle *pickle, const struct pile *pile, const char *action,
                              uint64_t time_ns) {
    uint64_t below = pile->heights[pile->count - 1], top = pile->heights[pile->count];
    open_event(pickle, action, PILE_AT + below, top - below, time_ns);
    write_frames(pickle, pile_says);
    pickle_dict_end(pickle);
}

/* Pieces go from the top until the pile is no higher, and one comes to make up for the rest. */
static void change_pile(struct pickle *pickle, struct pile *pile, uint64_t bytes,
                        uint64_t time_ns) {
    while (pile->count > 0 && pile->heights[pile->count] > bytes) {
        write_piece_event(pickle, pile, "free_requested", time_ns);
        write_piece_event(pickle, pile, "free_completed", time_ns);
        pile->count--;
    }
    if (pile->heights[pile->count] >= bytes)
        return;
    pile->heights[++pile->count] = bytes;
    write_piece_event(pickle, pile, "alloc", time_ns);
}

/* ---- out of memory ---- */

/* The call stack that was kept at the refusal. NULL: none, or no refusal. */
static const struct vramgc_stack *stack_of(const struct vramgc_file *file,
                                           const struct vramgc_refusal *refusal) {
    uint64_t index = refusal ? (uint64_t)refusal->stack - 1 : UINT64_MAX;
    return index < file->stack_count ? &file->stacks[index] : NULL;
}

static void write_oom(struct pickle *pickle, uint64_t time_ns, uint64_t request_bytes,
                      uint64_t free_bytes, const struct vramgc_stack *stack) {
    open_event(pickle, "oom", 0, request_bytes, time_ns);
    pickle_set_number(pickle, "device_free", free_bytes);
    pickle_text(pickle, "frames");
    pickle_list(pickle);
    for (size_t i = 0; stack && i < stack->frame_count; i++)
        write_frame(pickle, stack->frames[i].text);
    pickle_list_end(pickle);
    pickle_dict_end(pickle);
}

/* The device's refusals from *next on that came before the time. */
static void write_refusals(struct pickle *pickle, const struct stats_file *record, size_t device,
                           uint64_t before_ns, size_t *next) {
    for (; *next < record->refusal_count && record->refusals[*next]->time_ns < before_ns; ++*next)
        if (record->refusals[*next]->device == device && !record->refusals[*next]->granted)
            write_oom(pickle, record->refusals[*next]->time_ns,
                      record->refusals[*next]->request_bytes, record->refusals[*next]->free_bytes,
                      stack_of(record->file, record->refusals[*next]));
}

static void write_pile_trace(struct pickle *pickle, const struct stats_file *record, size_t index,
                             struct pile *pile) {
    const struct vramgc_device *device = &record->file->devices[index];
    size_t next = 0;
    for (size_t i = 0; i < device->sample_count; i++) {
        write_refusals(pickle, record, index, device->samples[i].time_ns, &next);
        change_pile(pickle, pile, device->samples[i].allocated_bytes, device->samples[i].time_ns);
    }
    write_refusals(pickle, record, index, UINT64_MAX, &next);
}

/* The pile as it is at last, in a segment that held it when it was highest. */
static void write_pile(struct pickle *pickle, const struct vramgc_device *device, size_t index,
                       const struct pile *pile) {
    uint64_t live = pile->heights[pile->count], highest = 0;
    for (size_t i = 0; i < device->sample_count; i++)
        highest = max_u64(highest, device->samples[i].allocated_bytes);
    const struct segment segment = {index, PILE_AT, highest, live, live, 0, false};
    if (highest == 0)
        return;
    open_segment(pickle, &segment, pile_says);
    for (size_t i = 0; i < pile->count; i++)
        write_block(pickle, PILE_AT + pile->heights[i], pile->heights[i + 1] - pile->heights[i],
                    "active_allocated", pile_says);
    if (highest > live)
        write_block(pickle, PILE_AT + live, highest - live, "inactive", NULL);
    close_segment(pickle);
}

/* ---- with a map ---- */

static const char *state_name(uint32_t state) {
    return state == VRAMGC_BLOCK_ALLOCATED ? "active_allocated"
           : state == VRAMGC_BLOCK_PENDING ? "active_pending_free"
                                           : "inactive";
}

/* The blocks from first on that lie in its segment; how many. */
static size_t write_segment(struct pickle *pickle, const struct vramgc_block *first, size_t count,
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
    open_segment(pickle, &segment, NULL);
    for (size_t i = 0; i < n; i++)
        write_block(pickle, first[i].address, first[i].bytes, state_name(first[i].state), NULL);
    close_segment(pickle);
    return n;
}

static void write_map(struct pickle *pickle, const struct block_map *map, size_t device) {
    for (size_t i = 0; i < map->head.count;)
        i += write_segment(pickle, &map->blocks[i], map->head.count - i, device);
}

/* The out-of-memory that the map is of; PyTorch may have asked nobody before. */
static void write_map_trace(struct pickle *pickle, const struct stats_file *record,
                            const struct vramgc_map *head) {
    const struct vramgc_refusal *refusal = NULL;
    for (size_t i = 0; i < record->refusal_count; i++)
        if (record->refusals[i]->device == head->device &&
            record->refusals[i]->request_bytes == head->request_bytes)
            refusal = record->refusals[i];
    write_oom(pickle, head->time_ns, head->request_bytes, head->free_bytes,
              stack_of(record->file, refusal));
}

/* ---- the snapshot ---- */

static void write_trace(struct pickle *pickle, const struct stats_file *record, size_t index,
                        const struct block_map *map, struct pile *pile) {
    pickle_item(pickle);
    pickle_list(pickle);
    if (map->blocks)
        write_map_trace(pickle, record, &map->head);
    else
        write_pile_trace(pickle, record, index, pile);
    pickle_list_end(pickle);
}

static void write_device_traces(struct pickle *pickle, const struct stats_file *record,
                                const struct block_maps *maps, struct pile *piles) {
    pickle_text(pickle, "device_traces");
    pickle_list(pickle);
    for (size_t i = 0; i < record->file->device_count; i++)
        write_trace(pickle, record, i, &maps->of[i], &piles[i]);
    pickle_list_end(pickle);
}

static void write_segments(struct pickle *pickle, const struct stats_file *record,
                           const struct block_maps *maps, const struct pile *piles) {
    pickle_text(pickle, "segments");
    pickle_list(pickle);
    for (size_t i = 0; i < record->file->device_count; i++)
        if (maps->of[i].blocks)
            write_map(pickle, &maps->of[i], i);
        else
            write_pile(pickle, &record->file->devices[i], i, &piles[i]);
    pickle_list_end(pickle);
}

void export_torch(FILE *out, const struct records *records) {
    const struct stats_file *record = records->list[verdict_record(records->list, records->count)];
    struct pile *piles = calloc(VRAMGC_MAX_DEVICES, sizeof *piles);
    if (!piles) {
        complain("no memory");
        return;
    }
    struct block_maps maps = block_maps_load(record);
    struct pickle pickle = pickle_begin(out);
    pickle_dict(&pickle);
    write_device_traces(&pickle, record, &maps, piles);
    write_segments(&pickle, record, &maps, piles);
    pickle_text(&pickle, "allocator_settings");
    pickle_dict(&pickle);
    pickle_set_text(&pickle, "PYTORCH_ALLOC_CONF", record->file->alloc_conf);
    pickle_dict_end(&pickle);
    pickle_text(&pickle, "external_annotations");
    pickle_list(&pickle);
    pickle_list_end(&pickle);
    pickle_dict_end(&pickle);
    pickle_end(&pickle);
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
        export_torch(file.stream, &one);
        if (outfile_close(&file))
            complain("out of memory: %s shows the blocks, on pytorch.org/memory_viz", path);
    }
    free(path);
}
