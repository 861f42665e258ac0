/* pages.h: the page engine: physical memory follows live blocks. The segments of PyTorch's native
 * allocator get address space only; the pages of a block are mapped when it is handed out, before
 * anybody can use it, and can be unmapped when no live block reaches into them and the GPU has
 * finished with them. Addresses never change.
 *
 * One engine a device. Any thread may call; no lock is held across a driver call. A page that one
 * thread is unmapping while another needs it is waited for (microseconds; the unmapping thread
 * waits for nobody). The device's context must be current in the calling thread. */
#ifndef PAGES_H
#define PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pages;

struct pages_figures {
    uint64_t reserved_bytes;               /* address space of segments */
    uint64_t mapped_bytes;                 /* physical memory behind them */
    uint64_t idle_bytes;                   /* mapped, and no live block reaches into it */
    uint64_t kept_bytes;                   /* physical memory kept for the next block */
    uint64_t maps, unmaps, creates, waits; /* pages; waits: settlings that had to wait */
};

/* NULL when the device or the driver cannot do it: a trial in a private range (create, map, write,
 * read back, unmap, map elsewhere, read back) must succeed. Costs a few driver calls, once. */
struct pages *pages_open(unsigned device);

/* Address space for a segment; 0: the device has not that much to give even if all idle pages were
 * taken, or the driver refused. bytes is a multiple of 2 MiB. */
uint64_t pages_segment(struct pages *pages, uint64_t bytes, uint64_t stream);

/* Ends a segment. Waits until the GPU has finished with it, as cudaFree does. Its physical pages
 * are kept for the next block. False: not one of ours. */
bool pages_end(struct pages *pages, uint64_t address);

/* A block is handed out: its pages are mapped, and pinned for ever if `pin`. False: the device is
 * really full; nothing changed. An address that is not ours is fine: true. */
bool pages_use(struct pages *pages, uint64_t address, uint64_t bytes, bool pin);

/* A block is free: its pages may be idle now. */
void pages_leave(struct pages *pages, uint64_t address, uint64_t bytes);

/* Whether the address lies in a segment of ours. */
bool pages_own(struct pages *pages, uint64_t address);

/* Gives up to `bytes` of idle and kept memory back to the driver, as far as the GPU has finished
 * with it; starts finding out about the rest. Never waits. Returns the bytes given back. */
uint64_t pages_give_back(struct pages *pages, uint64_t bytes);

/* The same, but waits for the GPU where that is needed to give enough. */
uint64_t pages_give_back_now(struct pages *pages, uint64_t bytes);

/* A stream is about to be destroyed: it must not be asked for events any more. */
void pages_stream_gone(struct pages *pages, uint64_t stream);

struct pages_figures pages_figures(struct pages *pages);

/* For a forked child: forgets without a driver call. */
void pages_forget(struct pages *pages);

#endif
