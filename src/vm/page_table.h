/* page_table.h: the page table of one device: which 2 MiB pages of PyTorch's segments have physical
 * memory behind them, which hold live blocks, and since when the others have been idle. Pure: knows
 * no CUDA and no clock, takes no lock (the engine does). It decides only which extents to take: the
 * longest idle first, never one that holds a live byte, is pinned, or that the GPU may still use.
 */
#pragma once

#include "base/base.h"

/* An extent is physical memory in one piece: of 2 to 20 MiB, as PyTorch's own expandable segments
 * take it, or of a multiple of 20 MiB where the card is roomy (room.c). Where it is not, a model
 * that is moved where large blocks have been would meet idle extents that are larger than it may
 * share, and all of these would be replaced. */
enum {
    LARGEST_EXTENT = 10,
    LARGEST_ROOMY = 12 * LARGEST_EXTENT,
    EACH = 20,  /* so many sizes one page apart, */
    PAIRS = 10, /* so many two apart, */
    EXTENT_SIZES = EACH + PAIRS + (LARGEST_ROOMY - EACH - 2 * PAIRS) / LARGEST_EXTENT
};
static inline size_t extent_npages(size_t size) {
    size_t pairs = min_u64(minus_u64(size + 1, EACH), PAIRS);
    size_t tens = minus_u64(size + 1, EACH + PAIRS);
    return min_u64(size + 1, EACH) + 2 * pairs + LARGEST_EXTENT * tens;
}
static inline size_t extent_size_index(size_t npages) {
    size_t pairs = min_u64(minus_u64(npages, EACH) / 2, PAIRS);
    size_t tens = minus_u64(npages, EACH + 2 * PAIRS) / LARGEST_EXTENT;
    return min_u64(npages, EACH) + pairs + tens - 1;
}

/* The pages of the largest extent, at most one or two such parts of the device: while the GPU is
 * not past it a smaller block keeps all of it. From 5 GiB on that is no limit to 20 MiB. */
enum { DEVICE_PART = 256 };
static inline size_t extent_largest(uint64_t total_bytes, bool roomy) {
    uint64_t part = max_u64(total_bytes / DEVICE_PART / PAGE_BYTES, 1);
    return min_u64(roomy ? LARGEST_ROOMY : LARGEST_EXTENT, roomy ? 2 * part : part);
}

/* The largest extent of at most so many pages. */
static inline size_t extent_within(size_t npages) {
    return npages ? extent_npages(extent_size_index(npages)) : 0;
}

/* BUSY: some thread is mapping or unmapping it outside the lock; no other may touch it. */
enum page_state { PAGE_EMPTY, PAGE_MAPPED, PAGE_BUSY };

/* Idle extents are listed by what PyTorch thinks of their addresses. KEPT: PyTorch's allocator has
 * all of it in its cache. RETURNED: it has given some of it back (empty_cache, a freed segment). */
enum page_idle { IDLE_NOT, IDLE_KEPT, IDLE_RETURNED, IDLE_LISTS };

struct page {
    uint64_t handle;            /* physical memory, 0: none */
    uint64_t idle_epoch;        /* when its last live block went, or PyTorch returned it */
    uint64_t idle_ns;           /* the table's clock then */
    struct page *older, *newer; /* in the list of idle extents */
    struct page_segment *segment;
    uint32_t live;   /* blocks that reach into it */
    uint32_t guards; /* so many blocks, which end right before it: see OVERREAD_BYTES */
    uint16_t npages; /* of the first page of an extent: how many it has; else 0 */
    uint16_t back;   /* in an extent: so far behind its first page */
    uint16_t used;   /* of the first page of an extent: its pages that are live or pinned */
    uint8_t state;
    uint8_t idle;    /* of the first page of an extent: its list, or IDLE_NOT */
    bool pinned;     /* never idle again: captured graphs replay without telling */
    bool attached;   /* may hold blocks; in a segment of our own all pages are */
    bool opening;    /* another device is being let in: it must stay mapped */
    bool droppable;  /* it need not guard before a request is refused */
    bool fresh;      /* mapped while the card was roomy, and no memory was had for it yet */
    uint8_t open_to; /* so many of the devices that may access our memory */
};

struct page_segment {
    uint64_t address, bytes;
    uint64_t stream;
    bool ended; /* PyTorch has given it back: it is returned, and goes with its last page */
    uint64_t end_epoch;
    struct page_segment *older, *newer; /* among the returned */
    size_t filled_count;                /* pages that are not empty */
    bool range;   /* the addresses are reserved elsewhere: blocks live only where it is attached */
    bool counted; /* what is attached counts as reserved; of our own segments all does */
    size_t page_count;
    struct page pages[];
};

struct page_list {
    struct page *oldest, *newest;
    size_t count;
};

struct page_table {
    struct page_segment **segments; /* by address */
    size_t segment_count, segment_capacity;
    struct page_segment *spare; /* for when there is no memory: zeroed */
    size_t spare_pages;
    struct page_list idle[IDLE_LISTS][EXTENT_SIZES];
    uint64_t now_ns;       /* the clock: the caller sets it before pages may become idle */
    uint64_t epoch;        /* grows with every page that becomes idle */
    uint64_t fenced_epoch; /* the GPU has finished with what was idle then or before */
    struct page_segment *returned_oldest, *returned_newest; /* ended, and not yet empty */
    struct page_segment *gone;                              /* ended and empty, linked by newer */
    uint64_t returned_count;                                /* of segments */
    uint64_t reserved_pages; /* of segments that have not ended, and attached ones that count */
    uint64_t attached_pages; /* the same, and those that do not count */
    uint64_t mapped_pages, idle_pages[IDLE_LISTS];
    size_t in_flight_pages; /* taken from their list, until who took them has counted them off */
};

/* Makes sure of the books for one more segment or range of so many bytes. False: no memory. */
bool page_table_prepare(struct page_table *table, uint64_t bytes);

/* Adds a segment without physical pages; address and bytes are multiples of PAGE_BYTES. NULL: no
 * memory for the books, or an overlap. */
struct page_segment *page_table_add(struct page_table *table, uint64_t address, uint64_t bytes,
                                    uint64_t stream);

/* The same for a range whose addresses are reserved elsewhere: none of its pages is attached yet.
 */
struct page_segment *page_table_add_range(struct page_table *table, uint64_t address,
                                          uint64_t bytes, bool counted);

/* Pages of a range may hold blocks now; what is mapped there is in PyTorch's cache again. False:
 * one of them may already. */
bool page_table_attach(struct page_table *table, struct page_segment *segment, size_t first,
                       size_t count);

/* They may not any more: nothing lives there or is pinned, whatever did or was. An idle extent that
 * reaches there is returned from now on, and stays mapped. False: one of them is not attached. */
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

/* Kernels read a little past the end of their tensors, and PyTorch alone has memory there as far as
 * its segment goes. So the page behind a block that ends so near to it is its guard while the block
 * lives, where it is attached. What the threads of a block load together fits into shared memory:
 * at most 227 KiB (CUDA Programming Guide, compute capability 9.0 and 10.0). */
enum { OVERREAD_BYTES = 256 << 10 };

/* That page; 0: there is none, or it is the block's own. */
size_t page_table_guard(const struct page_segment *segment, uint64_t address, uint64_t bytes);

/* Without expandable segments PyTorch takes a segment of its own for so large a block, rounded up
 * to 2 MiB (kMinLargeAlloc and kRoundLarge of CUDACachingAllocator.cpp), and has nothing behind
 * that once it has emptied its cache because a request was refused. Then what is behind such a
 * block in an expandable segment goes, too. */
enum { OWN_SEGMENT_BYTES = 10 << 20 };

/* A live block ends right before the page now, or no longer. */
void page_table_mark_guard(struct page_table *table, struct page_segment *segment, size_t page,
                           bool live);

/* The block is complete: its guard may be dropped. Then all of these are. */
void page_table_note_droppable(struct page_segment *segment, size_t page, uint64_t address,
                               uint64_t bytes);
void page_table_drop_guards(struct page_table *table);

/* A live block reaches into the pages now, or no longer; those that are not attached are not ours.
 */
void page_table_mark_live(struct page_table *table, struct page_segment *segment, size_t first,
                          size_t count);
void page_table_mark_idle(struct page_table *table, struct page_segment *segment, size_t first,
                          size_t count);

/* The pages, all in use, are never idle again, but for those that are not attached. */
void page_table_pin(struct page_segment *segment, size_t first, size_t count);

/* All pages with a live block are pinned, but those of a stream-ordered pool: what is freed there
 * is free in the driver's own, too, whatever was captured. */
void page_table_pin_live(struct page_table *table);

/* The segment's owner has given it back, or the range's, of which nothing is attached: what is
 * mapped is returned, whatever lived in it or pinned it, until its last page has gone. */
void page_table_end(struct page_table *table, struct page_segment *segment);

/* A returned segment, or range, of that size is its owner's again, with what is mapped there: the
 * one that ended last of those of the same stream, if `in_order` (work of the new owner comes after
 * that of the old one), else one that the GPU has finished with. NULL: none. */
struct revival {
    uint64_t bytes, stream;
    bool range, in_order;
};
struct page_segment *page_table_revive(struct page_table *table, const struct revival *revival);

/* Idle pages in ranges that do not count are returned. */
void page_table_return_uncounted(struct page_table *table);

/* The stream has been destroyed: another one may have its handle. */
void page_table_stream_gone(struct page_table *table, uint64_t stream);

/* A segment that has ended and has no page left; NULL: none. It is for page_table_remove, at once.
 */
static inline struct page_segment *page_table_ended(const struct page_table *table) {
    return table->gone;
}

/* So many empty pages are to get an extent: BUSY, until page_table_mapped or page_table_unclaim. */
void page_table_claim(struct page *page, size_t npages);
void page_table_unclaim(struct page_table *table, struct page *page);

/* Physical memory came (from BUSY to MAPPED) or went (from BUSY to EMPTY). */
void page_table_mapped(struct page_table *table, struct page *page, uint64_t handle);
void page_table_unmapped(struct page_table *table, struct page *page);

/* An extent that was taken keeps its place after all. */
void page_table_put_back(struct page_table *table, struct page *page);

/* The first page of the extent that the page belongs to; itself: it is in none. */
static inline struct page *page_lead(const struct page *page) {
    return (struct page *)page - page->back;
}

/* The pages of the extent that it leads, or the page alone. */
static inline size_t page_npages(const struct page *page) {
    return page->npages ? page->npages : 1;
}

/* Which idle extents may be taken: of that list, worth so many pages, idle since that time or
 * before. */
struct victims {
    enum page_idle list;
    size_t want;
    uint64_t idle_since_ns;
    bool newest_first;
    const size_t *at_most; /* extents of each size; NULL: all that there are */
};

/* Takes at most `room` of them, with which the GPU has finished; they become BUSY and leave their
 * list. Of those that are not larger than what is still wanted the longest idle first, or the
 * newest, for a loop wants the oldest next; of two the largest. Only where that does not make up
 * for `want` one larger extent is taken, and then what it makes superfluous stays: without any of
 * those taken the others would not do. Where all are wanted (SIZE_MAX, at_most NULL) what lies side
 * by side goes together. Returns how many extents. */
size_t page_table_victims(struct page_table *table, const struct victims *victims,
                          struct page **out, size_t room);

/* An idle extent that may go is BUSY from now on, or one that has not come to its block yet. The
 * caller has made sure of that. */
void page_table_take_victim(struct page_table *table, struct page *page);

/* The same for one extent: whether it was taken. */
bool page_table_try_victim(struct page_table *table, struct page *page);

/* When the extent of that list that has been idle for longest became so; UINT64_MAX: it is empty.
 */
uint64_t page_table_idle_since_ns(const struct page_table *table, enum page_idle list);

/* All invariants, counted anew; for tests. */
bool page_table_is_valid(const struct page_table *table);
