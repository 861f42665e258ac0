/* mode.h: the mode of this process and the reason, in the file. */
#pragma once

#include "govern/proven.h"
#include "track/device.h"

/* What is known of the machine when recording starts. */
struct mode_machine {
    int driver; /* its version; 0: not known */
    char driver_version[DRIVER_VERSION_BYTES];
    bool maps;            /* all devices say that they can map memory */
    struct proven proven; /* they were seen to bear it */
    char interposer[48];  /* mode_facts.interposer */
};

/* Recording starts, and PyTorch's version and setting stand in the file. */
void mode_begin(const struct mode_machine *machine);

/* Whether cudaMallocAsync is to be served by a pool of ours where the mode is compact. */
bool mode_wants_own_pool(void);

/* Whether its proof says that unmapping waits for kernels: vm_unmap_at_rest. */
bool mode_unmaps_at_rest(unsigned device);

/* Before PyTorch's allocator gets a segment: whether it may get its memory page by page. */
bool mode_is_compact(const struct device *device);

/* The self-test of a device. */
void mode_tried(const struct device *device, bool passed);

/* Writes it to the log when it is certain, or `last`. */
void mode_say(bool last);
