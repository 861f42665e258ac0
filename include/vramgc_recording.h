/* vramgc_recording.h: the layout of "STATISTICS FILE.blocks", which VRAMGC_RECORD writes for
 * `vramgc whatif`: which blocks PyTorch's allocator handed out and took back, of one device. A
 * shared mapping as the statistics file, true at every moment: this head, padded to
 * VRAMGC_RECORDING_HEAD bytes, then two halves of half_words 64-bit words each. One is written;
 * when it is full the other is begun, with the blocks that are live then, so that the older one
 * and all that follows it are always whole.
 *
 *     bits 0-1   enum vramgc_word
 *     bits 2-3   ALLOC, LIVE: the stream: 0, 1, 2, or 3: of the latest note STREAM; FREE: 1: other
 *                streams still use it, until a note COMPLETED
 *     bits 4-31  size in units of 512 bytes
 *     bits 32-63 address in units of 512 bytes, its lower half
 *
 * A note has its kind in bits 2-7, and in bits 8-63 a value; COMPLETED in bits 32-63 the address.
 */
#pragma once

#include <stdint.h>

#define VRAMGC_RECORDING_MAGIC "VRAMGCB\n"
#define VRAMGC_RECORDING_HEAD  4096
#define VRAMGC_RECORDING_UNIT  512 /* bytes: what sizes and addresses are counted in */

enum vramgc_word { VRAMGC_WORD_NOTE, VRAMGC_WORD_ALLOC, VRAMGC_WORD_FREE, VRAMGC_WORD_LIVE };

enum vramgc_note {
    VRAMGC_NOTE_STREAM = 1, /* number of the stream */
    VRAMGC_NOTE_EMPTIED,    /* the program has emptied PyTorch's cache */
    VRAMGC_NOTE_WANTED,     /* bytes for which PyTorch was out of memory */
    VRAMGC_NOTE_COMPLETED,
    VRAMGC_NOTE_JOB,  /* a job is over: its number */
    VRAMGC_NOTE_POOL, /* number of the blocks' private pool from now on; 0, as at first: none */
    VRAMGC_NOTE_KEEP, /* a graph, by address, keeps that pool */
    VRAMGC_NOTE_LEFT, /* such a graph, or a MemPool, by its number, has gone */
    VRAMGC_NOTES
};

struct vramgc_recording_half {
    uint64_t turn;          /* halves begun up to this one; 0: it never was */
    uint64_t written;       /* words */
    uint64_t events_before; /* block events that were lost where this is the older half */
    uint64_t jobs_before;
};

struct vramgc_recording {
    char magic[8];
    uint32_t head_bytes; /* sizeof(struct vramgc_recording) */
    uint32_t device;     /* that which had the first block */
    uint64_t pid;
    uint64_t started_ns;    /* of the statistics file */
    uint64_t half_words;    /* in each half */
    uint64_t other_devices; /* 1: others had blocks, too; they are not recorded */
    double fraction;        /* of the card, that PyTorch let itself have at last; 0: not known */
    uint64_t incomplete;    /* 1: it ends at a block that a word cannot tell, of more than 128 GiB,
                               or where half of a half was live blocks */
    struct vramgc_recording_half halves[2];
    char allocator[1024]; /* path of PyTorch's libc10_cuda.so */
};
