/* moves.c: see moves.h. It must not wait: it is on the way of every cudaMalloc. */
#include "track/moves.h"

#include "base/base.h"

#include <stdatomic.h>

static struct { _Atomic uint64_t begun, ended; } self;

/* Of them this thread's, which makes no reading while the driver is in its call. */
static THREAD_LOCAL uint64_t own;

void moves_begin(void) {
    own++;
    atomic_fetch_add(&self.begun, 1);
}

void moves_end(void) {
    own--;
    atomic_fetch_add(&self.ended, 1);
}

uint64_t moves_now(void) {
    uint64_t ended = atomic_load(&self.ended);
    uint64_t begun = atomic_load(&self.begun);
    return begun == ended + own ? begun + 1 : 0;
}

void moves_forget(void) {
    atomic_store(&self.ended, atomic_load(&self.begun) - own);
}
