/* proven.h: whether the machine's devices are proven to bear the page engine (base/proof.h). */
#pragma once

#include "base/proof.h"

struct proven {
    enum proof_state state; /* of all devices, the least that is known of one */
    unsigned devices;       /* those of that state, a bit each */
    unsigned unmap_waits;   /* those where unmapping waits for kernels: vm_unmap_at_rest */
};

/* Looks at the devices that the driver shows. It reads files and calls the driver: to be asked
 * once, and without a lock. */
struct proven proven_look(int driver_version);
