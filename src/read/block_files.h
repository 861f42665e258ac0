/* block_files.h: the files of blocks that the library left beside a statistics file: maps of an
 * out-of-memory (vramgc_map in vramgc_format.h), one for each device, and the record of
 * VRAMGC_RECORD, as what `vramgc whatif` has PyTorch do again. Those of the statistics file's own
 * process and start; others are of an earlier file of that name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "read/stats_file.h"
#include "vramgc_recording.h"

/* The file of that name with ".ending" behind it, as by fopen(how); NULL: none. */
FILE *open_beside(const struct stats_file *record, const char *ending, const char *how);

/* ---- maps ---- */

struct vramgc_block;

struct block_map {
    struct vramgc_map head;
    struct vramgc_block *blocks; /* head.count; NULL: no map of this device */
};

struct block_maps {
    struct block_map of[VRAMGC_MAX_DEVICES];
};

struct block_maps block_maps_load(const struct stats_file *record);

void block_maps_free(struct block_maps *maps);

/* True: there is one, of any device. */
bool block_maps_exist(const struct stats_file *record);

/* ---- the record: each block is taken before it is given back, once, whatever the bytes are ----
 */

/* value > 0: block number `of` is handed out, of so many bytes. */
enum replay_kind {
    REPLAY_FREE = 0,
    REPLAY_STREAM = -1, /* `of` is the stream of the blocks that follow */
    REPLAY_EMPTY = -2,
    REPLAY_WANT = -3, /* of so many bytes, which PyTorch did not have */
    REPLAY_FREE_LATE =
        -4, /* block `of` is free as soon as its streams are done: REPLAY_FREE tells */
    REPLAY_POOL = -VRAMGC_NOTE_POOL /* this and less: other notes, with their value */
};

struct replay_step {
    int64_t value, of;
};

struct recording {
    struct replay_step *steps;
    size_t count;
    uint64_t events;      /* of blocks, that are told */
    uint64_t events_lost; /* before them */
    uint64_t first_job;   /* the first that is whole, and the latest; first > last: none is */
    uint64_t last_job;
    uint64_t live_bytes;   /* the most that was live */
    uint64_t wanted_bytes; /* the latest request for which there was no memory; 0: none */
    bool other_devices, incomplete;
    double fraction; /* of the card, that PyTorch had at most; 0: all of it */
    unsigned device;
    char allocator[sizeof((struct vramgc_recording *)0)->allocator];
};

/* False, with a sentence in error: there is none, or it is not of this record, or of another
 * version. To be given back with recording_free. */
bool recording_load(const struct stats_file *record, struct recording *out, char *error,
                    size_t capacity);
void recording_free(struct recording *recording);

bool recording_exists(const struct stats_file *record);

/* ---- what `vramgc whatif` has found out, in STATISTICS FILE.whatif ---- */

struct whatif_answer {
    char setting[128];
    uint64_t card_bytes; /* the smallest on which the blocks fit */
};

/* With which setting the run would have fitted on its own card, and what would have been left.
 * False: with none; or that is not known; or the run's own would do: so much for the answers. */
bool whatif_answers_best(const struct stats_file *record, uint64_t card_bytes,
                         struct whatif_answer *best, uint64_t *left_bytes);
