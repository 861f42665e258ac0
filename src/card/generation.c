/* generation.c: see generation.h: that of the calls for memory. It must not wait: it is on the way
 * of every cudaMalloc. */
#include "card/generation.h"

#include "base/base.h"

static struct { struct generation calls; } self;

/* Of them this thread's. */
static THREAD_LOCAL uint64_t own;

void moves_begin(void) {
    own++;
    generation_begin(&self.calls);
}

void moves_end(void) {
    own--;
    generation_end(&self.calls);
}

uint64_t moves_now(void) {
    return generation_now(&self.calls, own);
}

void moves_forget(void) {
    generation_settle(&self.calls, own);
}
