/* vm.h: the page engine: physical memory follows live blocks. The segments of PyTorch's native
 * allocator get address space only; the pages of a block are mapped when it is handed out, before
 * the program can use it, and can be unmapped when no live block reaches into them and the GPU has
 * finished with them. Addresses never change.
 *
 * A page:
 *
 *     EMPTY --commit--> LIVE --last block freed--> KEPT --PyTorch frees the address--> RETURNED
 *       ^                ^---- block comes again ---'                                      |
 *       |                ^---- same addresses, or the segment, come again -----------------'
 *       '-- KEPT or RETURNED, unmapped once the GPU is past it; the handle stays for a moment
 *           in the cache, for the next block, then goes to the driver
 *
 * In mode flush a step of PyTorch's is LIVE from its mapping to its unmapping, then RETURNED.
 *
 * LIVE is a page that a block reaches into, or that is its guard (the page right behind it), or
 * pinned by a capture; KEPT lies in PyTorch's cache. Memory is physical in units of extents, which
 * change state as one: one page LIVE, all are. While a thread maps or unmaps an extent without the
 * lock it is BUSY, and no other thread touches it.
 *
 * Invariant: a page that a live block reaches into has memory, and keeps it until the block is free
 * and the GPU has been found to be past all that it was given before that.
 *
 * One engine a device. Any thread may call, with any context current but where said; no lock is
 * held across a driver call. A page that one thread is unmapping while another needs it is waited
 * for (microseconds; the unmapping thread waits for none). While anything is captured the GPU is
 * not asked: only what it has been found to have finished with before is moved. */
#pragma once

#include "base/base.h"
#include "card/reading.h"
#include "cuda/cuda_api.h"

struct vm;

struct vm_figures {
    uint64_t reserved_bytes;  /* address space of segments that have not ended, and what is attached
                                 of ranges that count */
    uint64_t mapped_bytes;    /* physical memory behind segments, ended ones included */
    uint64_t idle_bytes;      /* mapped, and no live block reaches into that extent */
    uint64_t returned_bytes;  /* of idle_bytes: PyTorch has returned it */
    uint64_t cached_bytes;    /* physical memory cached for the next block */
    uint64_t in_flight_bytes; /* of what is mapped or cached: leaving its place, or to the driver */
    uint64_t held_idle_bytes; /* that no live block needs, nor is promised to a handle; of what is
                                 leaving, too, until the driver has it back */
    uint64_t physical_bytes;  /* all that the driver has given of the device's */
    uint64_t failed_bytes;    /* of blocks that were refused where PyTorch counts them as allocated
                                  for ever: not those of a range that does not count */
    uint64_t maps, unmaps;    /* pages */
    uint64_t calls;           /* of the driver for all that, for addresses and for access */
    uint64_t waits;           /* fences that had to wait */
    uint64_t reused;          /* steps of PyTorch's that got a piece it had unmapped */
    uint64_t spilled_bytes;   /* of mapped_bytes: in host memory */
    uint64_t spilled_ns;      /* how long anything was */
};

/* NULL when the device or the driver cannot do it: a trial in a private range (create, map, write,
 * read back, unmap, map elsewhere, read back) must succeed. Costs a few driver calls, once. The
 * device's context is current. capturing, which may be NULL: whether any stream is captured.
 * threshold_percent: where more than this much of the device would be in use, by whomever, idle
 * pages are used before new memory is asked of the driver; 0: always, and sparingly. */
struct vm *vm_open(unsigned device, bool (*capturing)(void), double threshold_percent);

/* Right after vm_open: this driver's cuMemUnmap comes back only when running kernels are over. What
 * is idle goes then only while the GPU has nothing to do, or where memory is short. */
void vm_unmap_at_rest(struct vm *vm);

/* Right after vm_open: where the device is really full, up to so many bytes of blocks live in
 * host memory, mapped at the same addresses. False: this driver cannot do that (it is tried once).
 */
bool vm_enable_spill(struct vm *vm, uint64_t bytes);

/* From our own thread, now and then: idle pages in host memory go back. */
void vm_spill_decay(struct vm *vm);

/* --- mode flush: the engine without pages (steps.c) --- */

/* Its pieces are the steps of PyTorch's expandable segments, made with such properties. Nothing
 * below that speaks of blocks is asked of it. NULL: no memory for its books. The device's context
 * is current. */
struct vm *vm_open_steps(unsigned device, bool (*capturing)(void),
                         const CUmemAllocationProp *properties);
const CUmemAllocationProp *vm_step_properties(const struct vm *vm);
bool vm_step_fits(uint64_t bytes); /* its books can have pieces of that size */

/* PyTorch makes a handle: one more piece of that size is there that serves nothing else; or the
 * driver's refusal. PyTorch releases one that is not mapped: one less. */
CUresult vm_step_promise(struct vm *vm, uint64_t bytes);
void vm_step_forgo(struct vm *vm, uint64_t bytes);

/* A handle is mapped where vm_attach has just been: a piece is there, and serves that. Or the
 * driver's refusal: then it is detached again. */
CUresult vm_step_map(struct vm *vm, uint64_t address, uint64_t bytes);

/* The devices get access to steps that are mapped; or the driver's refusal. */
CUresult vm_step_open(struct vm *vm, uint64_t address, uint64_t bytes);

/* From now on nothing is kept: somebody else is to share a step, or lays memory of his own there.
 * Whether anything is. */
void vm_keep_no_steps(struct vm *vm);
bool vm_keeps_steps(struct vm *vm);

/* The driver's handle at the address, which is mapped. */
uint64_t vm_step_handle(struct vm *vm, uint64_t address);

/* --- addresses --- */

/* Address space for a segment, for who has asked whether it could be backed; 0: the driver refused.
 * A returned segment of the same size comes back without a call into the driver. bytes is a
 * multiple of 2 MiB. The device's context is current. */
uint64_t vm_reserve(struct vm *vm, uint64_t bytes, uint64_t stream);

/* Ends a segment, in which no block lives. Does not wait: the segment is returned, its pages are
 * idle like others; its addresses go when the last one has gone. False: not one of ours. */
bool vm_unreserve(struct vm *vm, uint64_t address);

/* A range whose addresses are reserved elsewhere (PyTorch's expandable segments): nothing may live
 * in it until it is attached. counted: what is attached there counts in reserved_bytes (PyTorch
 * takes it for its own); that of a stream-ordered pool does not. address and bytes are multiples of
 * 2 MiB. False: no memory for the books, or it overlaps what is ours already. */
bool vm_range_add(struct vm *vm, uint64_t address, uint64_t bytes, bool counted);

/* The address of a range of that size that has ended, with what is mapped there: it has not ended
 * any more. 0: none with which the GPU has finished. */
uint64_t vm_range_revive(struct vm *vm, uint64_t bytes);

/* Makes sure of the books for one more range of that size, so that vm_range_add cannot fail for
 * want of them. False: there is no memory for that. */
bool vm_range_prepare(struct vm *vm, uint64_t bytes);

/* [address, +bytes) lies in a range of the book (book.h) that is this engine's from now on. False:
 * in none, it is another's, or no memory for the books. */
bool vm_range_claim(struct vm *vm, uint64_t address, uint64_t bytes);

/* The program returns the range. ENDED: the engine keeps the addresses, and frees them when the
 * last page there has gone. IN_USE: not all attachments have ended. */
enum vm_range_end { VM_RANGE_NOT_OURS, VM_RANGE_IN_USE, VM_RANGE_ENDED };
enum vm_range_end vm_range_end(struct vm *vm, uint64_t address);

/* [address, +bytes) of a range may hold blocks from now on. A block may reach over several
 * attachments of a range. False: not in one range, or attached already. */
bool vm_attach(struct vm *vm, uint64_t address, uint64_t bytes);

/* No longer; no block lives there. Does not wait, and calls no driver: what is mapped there is
 * idle, and is there when the same addresses are attached next. Work on the two must be in order,
 * as it is on a segment that belongs to one stream. False: it is not attached. */
bool vm_detach(struct vm *vm, uint64_t address, uint64_t bytes);

/* True: so much more could be backed by physical memory if all idle pages were taken. The
 * device's context is current. */
bool vm_could_back(struct vm *vm, uint64_t bytes);

/* Gives a handle back to the driver, which may refuse once. False: it keeps refusing. */
bool vm_release(uint64_t handle);

/* The context in which it was opened, and in which it asks the GPU. */
uint64_t vm_context(const struct vm *vm);

/* Before anything is reserved: the context is the primary one, and the GPU is asked for all that it
 * does there at once, where the driver can tell (CUDA 12.5). Those that are not primary may share
 * memory with others of which such an answer says nothing. */
void vm_ask_context(struct vm *vm);

/* Work on our pages may run on this stream, whichever owns the segment: every stream of the context
 * counts. The device's context is current. */
void vm_stream_add(struct vm *vm, uint64_t stream);

/* True: it is followed by itself, and not about to be destroyed. False where too many are. */
bool vm_stream_known(struct vm *vm, uint64_t stream);

/* Another device may access this one's memory from now on (peer access was enabled): all mapped
 * pages are opened for it, later ones too. False: the driver refused, or there are too many; pages
 * are as before then. */
bool vm_add_peer(struct vm *vm, unsigned device);

/* The engine's clock, and the moment up to which the GPU has finished: what streams that the engine
 * knows were doing when vm_mark_idle was called is over once a epoch read after that is fenced. */
uint64_t vm_epoch(struct vm *vm);
uint64_t vm_fenced_epoch(struct vm *vm);

/* A block is handed out: its pages are mapped, and pinned until the segment ends, or what was
 * attached is detached, if `pin`. False: the device is really full, or see vm_refusal; nothing
 * changed. An address that is not ours is fine: true; so are pages of a range that are not
 * attached. */
bool vm_commit(struct vm *vm, uint64_t address, uint64_t bytes, bool pin);

/* [address, +bytes) has been attached: where the card is roomy a block gets its part of it in large
 * pieces. Never during a capture. */
void vm_mapped(struct vm *vm, uint64_t address, uint64_t bytes);

/* The driver's answer when this thread's latest vm_commit failed: CUDA_ERROR_OUT_OF_MEMORY, or
 * what means something else and is to be passed on as it is. */
int vm_refusal(void);

/* The caller tried as often as it would, and refuses that block for good: it is told in figures. */
void vm_commit_failed(struct vm *vm, uint64_t address, uint64_t bytes);

/* A block is free: its pages may be idle now. What any stream was given to do with it before may
 * still run: all of them are asked before a page goes. */
void vm_mark_idle(struct vm *vm, uint64_t address, uint64_t bytes);

/* True: the address lies in a segment of ours, which is told, or in what is attached of a range: no
 * bytes, for what is mapped there is in the book (book.h). */
bool vm_owns(struct vm *vm, uint64_t address, uint64_t *segment, uint64_t *bytes);

/* Gives up to `bytes` of idle and cached memory back to the driver, as far as the GPU has finished
 * with it. POLL: asks it first, and starts finding out about the rest; waits only where events
 * cannot tell (a stream has been destroyed, or it is not sure who uses a page): for a thread of our
 * own. WAIT: waits for the GPU where that is needed to give enough, for a thread that was refused
 * memory. Returns the bytes given back. */
enum vm_ask { VM_ASK_NOT, VM_POLL, VM_WAIT };
uint64_t vm_reclaim(struct vm *vm, uint64_t bytes, enum vm_ask ask);

/* All goes that PyTorch has returned, and what is cached. Waits for the GPU for a tenth of a second
 * at most. */
void vm_reclaim_returned(struct vm *vm);

/* A stream-ordered pool was trimmed: what is idle there is returned. */
void vm_trim(struct vm *vm);

/* How old idle memory may get. */
struct decay_limits {
    uint64_t kept_ns;     /* what PyTorch's allocator keeps in its cache: idle for so long, */
    uint64_t kept_bytes;  /* and at most so much of it goes */
    uint64_t returned_ns; /* what PyTorch has returned: idle for so long; and cached handles */
};

/* When the next memory gets too old; UINT64_MAX: none does. Calls no driver. */
uint64_t vm_decay_due_ns(struct vm *vm, const struct decay_limits *limits);

/* Bytes that vm_decay gave back to the driver, of each kind. */
struct decayed {
    uint64_t kept_bytes, returned_bytes;
};

/* Memory that is too old by now goes back to the driver, as far as the GPU has finished with it.
 * Never during a capture. For our own thread: it may wait for the GPU. */
struct decayed vm_decay(struct vm *vm, const struct decay_limits *limits, uint64_t now_ns);

/* Suspends decay while free memory is queried. Nests. */
void vm_reading_begins(struct vm *vm);
void vm_reading_ends(struct vm *vm);

/* Free bytes of the card as PyTorch alone would see them: neither in use by others nor reserved by
 * PyTorch, by a reading that will do for the need and our own pages since.
 * UINT64_MAX: the driver has not said. */
uint64_t vm_free_as_reserved(struct vm *vm, enum meminfo_need need);

/* The same from free bytes that the caller reckons; and from those that the driver has just told
 * the program. before: vm_moves() when the program asked: where pages have come or gone since, the
 * driver is asked again. */
uint64_t vm_free_as_seen(struct vm *vm, int64_t spare_bytes);
uint64_t vm_free_as_told(struct vm *vm, int64_t spare_bytes, uint64_t before);

/* A stream is about to be destroyed: it is not asked any more after this. */
void vm_stream_gone(struct vm *vm, uint64_t stream);

/* A capture is about to begin, and `capturing` does not say so yet. Of what becomes idle from now
 * on nothing can be had before it ends, so the GPU is asked once more; where memory is short it is
 * waited for, for a tenth of a second at most. The device's context is current. */
void vm_capture_prepare(struct vm *vm);

/* A capture is about to begin, and `capturing` says so already: no thread asks the GPU any more
 * after this. */
void vm_capture_begin(void);

/* Pages that are live now stay until their segment ends: the graph that is about to be captured may
 * use them whenever it is replayed, though PyTorch has freed it in the graph's pool (CUDA graph
 * trees). */
void vm_pin_live(struct vm *vm);

struct vm_figures vm_figures(struct vm *vm);

/* Another number after each change of what is physical; 0: one is under way. A reading of the card
 * between two equal ones that are not 0 fits the figures. */
uint64_t vm_moves(const struct vm *vm);

/* Changes after each change of what is physical, spilled, counted or waited for, up to calls.
 * Cheap: for every block event. */
uint64_t vm_changes(const struct vm *vm);

/* Where there is no engine (mode flush): whether the GPU is past what it had to do when this was
 * first asked, of late, since it was last so; to be zeroed at first. True where the driver cannot
 * tell (before CUDA 12.5). Does not wait. */
struct vm_past {
    atomic_uint taken; /* 1: a thread asks; to be zeroed in a forked child */
    bool pending;
    uint64_t asked_ns;
    CUevent event;
};
bool vm_is_past(struct vm_past *past, CUcontext context, bool (*capturing)(void));

/* For a forked child, without a driver call: locks are open, no thread is asking or making
 * anything. pages may be NULL. */
void vm_forget(struct vm *vm);
