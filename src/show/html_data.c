/* html_data.c: see html_data.h. A map of millions of blocks becomes one of thousands: small
 * neighbours are drawn together, and no hole that is large enough to be seen gets lost in that. */
#include "show/html_data.h"
#include "read/block_maps.h"
#include "show/html_text.h"
#include "show/report_fields.h"
#include "base/base.h"
#include "vramgc.h"

#include <inttypes.h>
#include <stdlib.h>

void html_data_report(FILE *out, struct stats_file *const *records, size_t count) {
    char *json = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&json, &length);
    if (!stream)
        return;
    report_fields_write(stream, EMIT_JSON, records, count, NULL);
    if (fclose(stream) == 0)
        html_json(out, json, length);
    free(json);
}

/* Blocks that are drawn as one: how many, and their bytes by state. */
struct entry {
    uint64_t live_bytes, pending_bytes, free_bytes, blocks;
};

static uint64_t entry_bytes(const struct entry *entry) {
    return entry->live_bytes + entry->pending_bytes + entry->free_bytes;
}

static void add_block(struct entry *entry, const struct vramgc_block *block) {
    uint64_t *of_state = block->state == VRAMGC_BLOCK_ALLOCATED ? &entry->live_bytes
                         : block->state == VRAMGC_BLOCK_PENDING ? &entry->pending_bytes
                                                                : &entry->free_bytes;
    *of_state += block->bytes;
    entry->blocks++;
}

/* Below so many bytes a block is drawn together with its neighbours. 0: each by itself. */
static uint64_t least_drawn_bytes(const struct block_map *map) {
    enum { MOST_ENTRIES = 12000 }; /* of 20 bytes: a quarter of a megabyte of the page */
    uint64_t total = 0;
    for (size_t i = 0; i < map->head.count; i++)
        total += map->blocks[i].bytes;
    return map->head.count > MOST_ENTRIES ? total / MOST_ENTRIES * 2 : 0;
}

static void draw_entry(FILE *out, struct entry *entry, bool *first) {
    if (entry->blocks > 0)
        fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", *first ? "" : ",",
                entry->live_bytes, entry->pending_bytes, entry->free_bytes, entry->blocks);
    *first = *first && entry->blocks == 0;
    *entry = (struct entry){0};
}

/* Whether both lie in one segment, or in two of which no line would tell one from the other. */
static bool is_together(const struct vramgc_block *a, const struct vramgc_block *b,
                        uint64_t least) {
    return a->segment_address == b->segment_address ||
           (a->segment_bytes < least && b->segment_bytes < least);
}

/* The blocks from b on that lie in its segment; how many. */
static size_t draw_segment(FILE *out, const struct vramgc_block *b, size_t count, uint64_t least) {
    fprintf(out,
            "{\"address\":\"0x%" PRIx64 "\",\"stream\":\"0x%" PRIx64
            "\",\"expandable\":%s,\"entries\":[",
            b->segment_address, b->stream == STREAM_NONE ? 0 : b->stream,
            b->expandable ? "true" : "false");
    struct entry entry = {0};
    bool first = true;
    size_t n = 0, segments = 0;
    for (; n < count && is_together(b, &b[n], least); n++) {
        segments += n == 0 || b[n].segment_address != b[n - 1].segment_address;
        if (b[n].bytes >= least || entry_bytes(&entry) >= least)
            draw_entry(out, &entry, &first);
        add_block(&entry, &b[n]);
        if (b[n].bytes >= least)
            draw_entry(out, &entry, &first);
    }
    draw_entry(out, &entry, &first);
    fprintf(out, "],\"segments\":%zu}", segments);
    return n;
}

static void draw_map(FILE *out, const struct block_map *map, size_t process) {
    const struct vramgc_map *head = &map->head;
    uint64_t least = least_drawn_bytes(map);
    fprintf(out,
            "{\"process\":%zu,\"device\":%u,\"time_ns\":%" PRIu64 ",\"request_bytes\":%" PRIu64
            ",\"free_bytes\":%" PRIu64 ",\"segments\":[",
            process, head->device, head->time_ns, head->request_bytes, head->free_bytes);
    for (size_t i = 0; i < head->count;) {
        fputs(i > 0 ? "," : "", out);
        i += draw_segment(out, &map->blocks[i], head->count - i, least);
    }
    fputs("]}", out);
}

void html_data_maps(FILE *out, struct stats_file *const *records, size_t count) {
    bool first = true;
    fputc('[', out);
    for (size_t i = 0; i < count; i++) {
        struct block_maps maps = block_maps_load(records[i]);
        for (size_t j = 0; j < VRAMGC_MAX_DEVICES; j++) {
            if (!maps.of[j].blocks)
                continue;
            fputs(first ? "" : ",", out);
            first = false;
            draw_map(out, &maps.of[j], i);
        }
        block_maps_free(&maps);
    }
    fputc(']', out);
}
