/* page_table.h: the page table of one device: which 2 MiB pages of PyTorch's segments have physical
 * memory behind them, which hold live blocks, and which have been idle for how long. Pure: knows no
 * CUDA, takes no lock (the engine does), and decides only which pages to take: longest idle first,
 * never one that holds a live byte, is pinned, or whose last work may not be over. */
#ifndef VM_PAGE_TABLE_H
#define VM_PAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Physical memory comes in extents of 1, 2, 4, … pages: each is a part of the next larger. */
enum { EXTENT_SIZES = 7, LARGEST_EXTENT = 64 };
extern const size_t extent_npages[EXTENT_SIZES];
size_t extent_size_index(size_t npages);

/* BUSY: some thread is mapping or unmapping it outside the lock; nobody else may touch it. */
enum page_state { PAGE_EMPTY, PAGE_MAPPED, PAGE_BUSY };

struct page {
    uint64_t handle;            /* physical memory, 0: none */
    uint64_t idle_epoch;        /* when its last live block went */
    struct page *older, *newer; /* in the list of idle pages */
    struct page_segment *segment;
    uint32_t live;   /* blocks that reach into it */
    uint16_t npages; /* of the first page of a mapping: so many pages in one extent; else 0 */
    uint16_t back;   /* in a mapping: so far behind its first page */
    uint16_t used;   /* of the first page of a mapping: its pages that are live or pinned */
    uint8_t state;
    bool pinned;     /* never idle again: captured graphs replay without telling */
    bool idle;       /* in the list */
    bool attached;   /* may hold blocks; in a segment all are */
    bool opening;    /* a further device is getting access: it must stay mapped */
    uint8_t open_to; /* so many of the devices that may access our memory */
};

struct page_segment {
    uint64_t address, bytes;
    uint64_t stream;
    bool ended; /* its owner has given it back: it is retained, and goes with its last page */
    uint64_t end_epoch;
    struct page_segment *older, *newer; /* among the retained */
    size_t filled_count;                /* pages that are not empty */
    bool range;   /* somebody else reserved the addresses: blocks live only in attached pages */
    bool counted; /* what is attached counts as reserved */
    size_t page_count;
    struct page pages[];
};

struct page_table {
    struct page_segment **segments; /* by address */
    size_t segment_count, segment_capacity;
    struct page *oldest[EXTENT_SIZES], *newest[EXTENT_SIZES]; /* idle pages, by size */
    uint64_t epoch;        /* grows with every page that becomes idle */
    uint64_t fenced_epoch; /* the GPU has finished with pages idle since then or before */
    struct page_segment *retained_oldest, *retained_newest; /* ended, and not yet empty */
    struct page_segment *gone;                              /* ended and empty, linked by newer */
    size_t retained_count;
    uint64_t reserved_pages; /* of segments that have not ended, and attached ones that count */
    uint64_t mapped_pages, idle_pages;
};

/* Adds a segment without physical pages; address and bytes are multiples of PAGE_BYTES. NULL: no
 * memory for the books, or an overlap. */
struct page_segment *page_table_add(struct page_table *table, uint64_t address, uint64_t bytes,
                                    uint64_t stream);

/* The same for a range whose addresses are somebody else's: none of its pages is attached yet. */
struct page_segment *page_table_add_range(struct page_table *table, uint64_t address,
                                          uint64_t bytes, bool counted);

/* Pages of a range may hold blocks now. False: one of them may already. */
bool page_table_attach(struct page_table *table, struct page_segment *segment, size_t first,
                       size_t count);

/* They may not any more: nothing lives there or is pinned, whatever did or was; an extent of memory
 * that is not in use beyond them either is idle, and stays mapped. False: one of them is not
 * attached. */
bool page_table_detach(struct page_table *table, struct page_segment *segment, size_t first,
                       size_t count);

/* Forgets a segment, all of whose pages must be empty. */
void page_table_remove(struct page_table *table, struct page_segment *segment);

/* The segment that holds the address; NULL: none. */
struct page_segment *page_table_lookup(const struct page_table *table, uint64_t address);

/* First page and number of pages that [address, address + bytes) of the segment reaches into. */
size_t page_table_first(const struct page_segment *segment, uint64_t address);
size_t page_table_npages(const struct page_segment *segment, uint64_t address, uint64_t bytes);

uint64_t page_address(const struct page *page);

/* A live block reaches into the pages now, or no longer; those that are not attached are not ours.
 */
void page_table_mark_live(struct page_table *table, struct page_segment *segment, size_t first,
                          size_t count);
void page_table_mark_idle(struct page_table *table, struct page_segment *segment, size_t first,
                          size_t count);

/* The pages, all in use, are never idle again, but for those that are not attached. */
void page_table_pin(struct page_segment *segment, size_t first, size_t count);

/* The segment's owner has given it back, or the range's, of which nothing is attached: what is
 * mapped is idle, whatever lived in it or pinned it. It is retained until its last page has gone.
 */
void page_table_end(struct page_table *table, struct page_segment *segment);

/* A retained segment (no range) of that size is its owner's again, with what is mapped there: the
 * one that ended last of those of the same stream, if `in_order` (work of the new owner comes after
 * that of the old one), else one that the GPU has finished with. NULL: none. */
struct page_segment *page_table_revive(struct page_table *table, uint64_t bytes, uint64_t stream,
                                       bool in_order);

/* The stream has been destroyed: another one may have its handle. */
void page_table_stream_gone(struct page_table *table, uint64_t stream);

/* A segment that has ended and has no page left; NULL: none. It is for page_table_remove, at once.
 */
struct page_segment *page_table_ended(const struct page_table *table);

/* Takes up to `want` pages of the segment that has been retained for longest, if it ended at that
 * epoch or before, as page_table_victims does. */
size_t page_table_victims_retained(struct page_table *table, uint64_t epoch, size_t want,
                                   struct page **out);

/* The same of any segment. */
size_t page_table_victims_in(struct page_table *table, struct page_segment *segment, size_t want,
                             struct page **out);

/* The range that ended first and is not empty; NULL: none. */
struct page_segment *page_table_retained_range(const struct page_table *table);

/* Takes up to `want` pages of what is not attached in ranges that have not ended, idle since that
 * epoch or before, as page_table_victims does. */
size_t page_table_victims_detached(struct page_table *table, uint64_t epoch, size_t want,
                                   struct page **out);

/* So many empty pages are to get memory in one extent: BUSY, until page_table_mapped or
 * page_table_unclaim. */
void page_table_claim(struct page *page, size_t npages);
void page_table_unclaim(struct page_table *table, struct page *page);

/* Physical memory came (from BUSY to MAPPED) or went (from BUSY to EMPTY). */
void page_table_mapped(struct page_table *table, struct page *page, uint64_t handle);
void page_table_unmapped(struct page_table *table, struct page *page);

/* A page that was picked keeps its memory after all. */
void page_table_put_back(struct page_table *table, struct page *page);

/* The first page of the mapping that the page belongs to; itself: it is in none. */
static inline struct page *page_lead(const struct page *page) {
    return (struct page *)page - page->back;
}

/* The page's own mapping, or the page alone. */
static inline size_t page_npages(const struct page *page) {
    return page->npages ? page->npages : 1;
}

/* Takes idle pages worth `want`, at most `room` extents, of those idle since fenced_epoch or
 * before; they become BUSY and are out of the list. Longest idle first among the extents that are
 * not larger than what is still wanted; of those idle for equally long the largest. Only where that
 * does not make up for `want` one larger extent is taken, the smallest there is, and then what it
 * makes superfluous stays: never is more taken than any other choice that suffices would take.
 * Returns how many extents. */
size_t page_table_victims(struct page_table *table, size_t want, struct page **out, size_t room);

/* The same of those idle since that epoch or before. */
size_t page_table_victims_idle_since(struct page_table *table, uint64_t epoch, size_t want,
                                     struct page **out, size_t room);

/* An idle page that may go is BUSY from now on. Only for whoever has made sure of that. */
void page_table_take_victim(struct page_table *table, struct page *page);

/* The same for one page: whether it was taken. */
bool page_table_try_victim(struct page_table *table, struct page *page);

/* All invariants, counted anew; for tests. */
bool page_table_is_valid(const struct page_table *table);

/* All pages with a live block are pinned. */
void page_table_pin_live(struct page_table *table);

#endif
