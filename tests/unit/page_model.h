/* page_model.h: a model of the page table that counts everything anew at each question: a list of
 * blocks and an array of pages, no list of idle ones, no sums. */
#ifndef PAGE_MODEL_H
#define PAGE_MODEL_H

#include "base/base.h"
#include "vm/page_table.h"

enum { SEGMENTS = 12, MOST_PAGES = 24, BLOCKS = 300 };

struct model_page {
    bool working, mapped, pinned, attached;
    uint64_t handle;
    size_t npages, back; /* of memory in one extent, in its first page; so far behind that */
    uint64_t idle_since; /* of interest while nothing lives in it */
};

struct model_segment {
    bool present, ended, range;
    uint64_t stream, ended_at;
    uint64_t address;
    size_t count;
    struct page_segment *real;
    struct model_page pages[MOST_PAGES];
};

struct model_block {
    bool present;
    struct model_segment *segment;
    uint64_t address, bytes;
};

struct page_model {
    struct page_table table;
    struct model_segment segments[SEGMENTS];
    struct model_block blocks[BLOCKS];
    uint64_t clock;  /* of the latest free */
    uint64_t fenced; /* the clock up to which the GPU has finished */
    uint64_t handles;
    uint64_t seed;
    /* How often the cases came. */
    size_t picked, large, pinned, ended, detached, cut, picked_revoked, revived;
};

extern struct page_model self;

struct sums {
    uint64_t reserved, mapped, idle, may_go;
    uint64_t extents[EXTENT_SIZES]; /* that may go */
};

bool reaches(const struct model_block *block, const struct model_segment *segment, size_t page);
uint64_t idle_since(const struct model_segment *segment, size_t i);
bool may_go(const struct model_segment *segment, size_t i);
struct sums count_anew(void);
void compare(void);

#endif
