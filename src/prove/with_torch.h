/* with_torch.h: the soak with a user's own PyTorch under the library, once for each door: native
 * segments, expandable ones, cudaMallocAsync. */
#pragma once

#include "prove/child.h"

struct python {
    const char *interpreter; /* NULL: there is none to be tried */
    const char *preload;     /* LD_PRELOAD with libvramgc.so */
};

extern const char *const python_doors[PYTHON_DOORS];

void python_run(const struct python *python, int device, struct findings *findings,
                child_tell *tell);
