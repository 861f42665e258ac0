/* mode.h: the mode of this process and the reason, in the file. */
#pragma once

#include "base/proof.h"
#include "track/device.h"

/* Which of the machine's devices are proven to bear the page engine (base/proof.h). */
struct proven {
    enum proof_state state; /* of all devices, the least that is known of one */
    unsigned devices;       /* those of that state, a bit each */
    unsigned unmap_waits;   /* those where unmapping waits for kernels: vm_unmap_at_rest */
};

/* The machine, when recording starts. */
struct mode_machine {
    int driver; /* its version; 0: not known */
    char driver_version[DRIVER_VERSION_BYTES];
    bool maps;            /* all devices say that they can map memory */
    struct proven proven; /* they were seen to bear it */
    char interposer[48];  /* mode_facts.interposer */
};

/* After cuInit: what speaks for and against mapping memory here. Reads files and calls the driver:
 * to be asked once, and without a lock. */
struct mode_machine machine_look(void);

/* The case against expandable segments, as a phrase, which may be in out; NULL: nothing. Calls
 * the driver, too. */
const char *machine_objection(char *out, size_t capacity);

/* Recording starts, and PyTorch's version and setting stand in the file. */
void mode_begin(const struct mode_machine *machine);

/* Is cudaMallocAsync to be served by a pool of ours, where the mode is compact? */
bool mode_wants_own_pool(void);

/* Does its proof say that unmapping waits for kernels (vm_unmap_at_rest)? */
bool mode_unmaps_at_rest(unsigned device);

/* Before PyTorch's allocator gets a segment: whether it may get its memory page by page. */
bool mode_is_compact(const struct device *device);

/* In mode flush: whether what PyTorch unmaps may be kept for a moment. Not before the mode is
 * settled. */
bool mode_keeps_steps(void);

/* The self-test of a device. */
void mode_tried(const struct device *device, bool passed);

/* Writes it to the log when it is certain, or `last`. */
void mode_say(bool last);
