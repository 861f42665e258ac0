/* alloc.h: allocations by address: what is said of each call that allocates or frees. Addresses,
 * handles and streams are CUDA's own as numbers, sizes are bytes; no pointer may be NULL unless
 * said. Before recording begins, and with VRAMGC_MODE=off, all of these do nothing. */
#pragma once

#include "base/base.h"
#include "cuda/real.h"

struct device;

enum alloc_class {
    CLASS_DEVICE,     /* cudaMalloc and its like */
    CLASS_POOL,       /* stream-ordered */
    CLASS_MANAGED,    /* migrates */
    CLASS_PINNED,     /* page-locked host memory made by the driver */
    CLASS_REGISTERED, /* host memory of the program, page-locked afterwards */
    CLASS_IMPORTED,   /* another process's memory */
    CLASS_GRAPH,      /* allocated while a stream was captured */
    CLASS_ADDRESS,    /* address space only */
    CLASS_VM,         /* a segment of the page engine: address space, pages come with blocks */
    CLASS_VM_POOL,    /* a block of a stream-ordered pool of our own, on the page engine */
    CLASS_COUNT
};

/* An allocation succeeded. allocator: the caller is PyTorch's caching allocator; on a
 * stream-ordered pool each of its allocations is a block, with the name of the Python function that
 * took it. Whether it is in the books now. */
bool alloc_succeeded(enum alloc_class class, uint64_t address, uint64_t bytes, bool allocator);

/* The record that a free took out of the books, to be put back should the driver refuse. */
struct alloc_freed {
    bool known;
    bool segment;  /* of PyTorch's allocator */
    bool block;    /* of PyTorch's allocator, from a stream-ordered pool */
    bool shared;   /* imported memory that was opened more than once: it stays */
    unsigned lent; /* see book_lent */
    uint64_t address, bytes;
    uint32_t class;
    unsigned device;
    unsigned library; /* of other code's, or whose it is that was lent (callers.h) */
    uint32_t tag;     /* of a block */
    uint32_t part;    /* of a model's step: who took it, as a site, and above that how deep */
    uint64_t context; /* in which it was made, if it goes with it; else 0 */
};

void alloc_free_begin(uint64_t address, struct alloc_freed *taken);
void alloc_free_abort(const struct alloc_freed *taken);
void alloc_free_commit(const struct alloc_freed *taken);

/* A part of a model's step begins; and ends: not as recorded, or outlived by tensors. */
void alloc_step_begins(void);
void alloc_step_ends(bool broken, bool outlived);

/* Drops what is known of a device; of a context that is gone, as if each had been freed; and for a
 * forked child. */
void alloc_reset(unsigned device);
void alloc_context_gone(CUcontext context);
