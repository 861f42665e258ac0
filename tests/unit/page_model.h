/* page_model.h: a model of the page table that counts everything anew at each question: a list of
 * blocks and an array of pages, no list of idle ones, no sums. */
#ifndef PAGE_MODEL_H
#define PAGE_MODEL_H

#include "base/base.h"
#include "vm/page_table.h"

enum { SEGMENTS = 12, MOST_PAGES = 24, BLOCKS = 300 };

/* A moment: of the table's epochs, and of its clock. */
struct moment {
    uint64_t epoch, ns;
};

struct model_page {
    bool working, mapped, pinned, attached;
    uint64_t handle;
    size_t npages, back;      /* of memory in one extent, in its first page; so far behind that */
    struct moment idle_since; /* of interest while nothing lives in it */
    uint64_t given_up; /* the epoch at which its owner gave up what was idle here; 0: never */
};

struct model_segment {
    bool present, ended, range, counted;
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
    struct moment now; /* the epoch of the latest free, and the clock */
    uint64_t fenced;   /* the epoch up to which the GPU has finished */
    uint64_t handles;
    uint64_t seed;
    /* How often the cases came. */
    size_t large, pinned, ended, detached, attached_again, cut, revived, given_up, not_old_enough;
    size_t picked[IDLE_LISTS];
};

extern struct page_model self;

struct sums {
    uint64_t attached, reserved, mapped, idle[IDLE_LISTS];
    uint64_t oldest_ns[IDLE_LISTS]; /* since when the extent is idle that is so for longest */
};

bool reaches(const struct model_block *block, const struct model_segment *segment, size_t page);

/* Of the extent that the page leads: since when it is idle, in which list; whether the GPU has
 * finished with it. */
struct moment idle_since(const struct model_segment *segment, size_t i);
enum page_idle list_of(const struct model_segment *segment, size_t i);
bool is_fenced(const struct model_segment *segment, size_t i);

/* What is idle in the extents to which those pages belong is so since now. */
void idle_since_now(struct model_segment *segment, size_t first, size_t count);

struct sums count_anew(void);
void compare(void);

#endif
