/* block_maps.h: the maps that the library left beside a statistics file at an out-of-memory
 * (vramgc_map in vramgc_format.h), one for each device. */
#pragma once

#include <stdbool.h>

#include "read/stats_file.h"

struct vramgc_block;

struct block_map {
    struct vramgc_map head;
    struct vramgc_block *blocks; /* head.count; NULL: no map of this device */
};

struct block_maps {
    struct block_map of[VRAMGC_MAX_DEVICES];
};

/* Those of the record's own process and start; others are of an earlier file of that name. */
struct block_maps block_maps_load(const struct stats_file *record);

void block_maps_free(struct block_maps *maps);

/* True: there is one, of any device. */
bool block_maps_exist(const struct stats_file *record);
