/* block_maps.c: see block_maps.h. Whatever the bytes are, blocks lie in order within their segments
 * afterwards, and no sum of them overflows. */
#include "read/block_maps.h"
#include "vramgc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most that a damaged file may make us allot: ten times as many as the heap is tested with. */
enum { MOST_BLOCKS = 10000000 };

static FILE *open_map(const struct stats_file *record, size_t device, struct vramgc_map *head) {
    char *path = NULL;
    if (asprintf(&path, "%s.oom%zu", record->path, device) < 0)
        return NULL;
    FILE *stream = fopen(path, "re");
    free(path);
    if (!stream)
        return NULL;
    if (fread(head, sizeof *head, 1, stream) == 1 &&
        memcmp(head->magic, VRAMGC_MAP_MAGIC, sizeof head->magic) == 0 &&
        head->block_bytes == sizeof(struct vramgc_block) && head->device == device &&
        head->pid == record->file->pid && head->started_ns == record->file->started_ns &&
        head->count > 0 && head->count <= MOST_BLOCKS)
        return stream;
    fclose(stream);
    return NULL;
}

static bool is_sound(const struct vramgc_block *blocks, size_t count) {
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_block *b = &blocks[i];
        if (b->address < end || b->bytes > (uint64_t)1 << 60 || b->address > (uint64_t)1 << 60)
            return false;
        end = b->address + b->bytes;
    }
    return true;
}

static struct block_map load_map(const struct stats_file *record, size_t device) {
    struct block_map map = {0};
    FILE *stream = open_map(record, device, &map.head);
    if (!stream)
        return map;
    size_t count = map.head.count;
    map.blocks = calloc(count, sizeof *map.blocks);
    if (map.blocks && (fread(map.blocks, sizeof *map.blocks, count, stream) != count ||
                       !is_sound(map.blocks, count))) {
        free(map.blocks);
        map.blocks = NULL;
    }
    fclose(stream);
    return map;
}

struct block_maps block_maps_load(const struct stats_file *record) {
    struct block_maps maps = {0};
    for (size_t i = 0; i < record->file->device_count; i++)
        maps.of[i] = load_map(record, i);
    return maps;
}

void block_maps_free(struct block_maps *maps) {
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++)
        free(maps->of[i].blocks);
}

bool block_maps_exist(const struct stats_file *record) {
    struct vramgc_map head;
    for (size_t i = 0; i < record->file->device_count; i++) {
        FILE *stream = open_map(record, i, &head);
        if (stream) {
            fclose(stream);
            return true;
        }
    }
    return false;
}
