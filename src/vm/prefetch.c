/* prefetch.c: the next piece of memory, made by our own thread before a block asks for it. To make one
 * lasts some hundred times as long as to map it (costs.def), and while a model loads or a job grows
 * nearly each block wants one. It is of the size that was made last, and used only where another
 * one of that size would be made: so blocks come in the same pieces as without. There is at most
 * one of each size, and none where memory is short or given back at once: see may_spare in
 * extent_size.c. */
#include "vm/vm_internal.h"

void pages_want_spare(struct pages *pages, size_t span) {
    if (span && !atomic_exchange(&pages->spare_span, span))
        atomic_store(&pages->spare_unsaid, true);
}

void pages_want_no_spare(struct pages *pages) {
    if (atomic_load_explicit(&pages->spare_span, memory_order_relaxed))
        atomic_store(&pages->spare_span, 0);
}

bool pages_wants_spare(struct pages *pages) {
    return atomic_load_explicit(&pages->spare_unsaid, memory_order_relaxed) &&
           atomic_exchange(&pages->spare_unsaid, false);
}

bool pages_make_spare(struct pages *pages) {
    size_t span = atomic_exchange(&pages->spare_span, 0);
    lock_take(&pages->lock);
    if (span && pages->kept[page_size_index(span)].spare)
        span = 0;
    pages->making = span;
    lock_give(&pages->lock);
    if (!span)
        return false;
    uint64_t handle = pages_create(pages, span);
    lock_take(&pages->lock);
    pages->making = 0;
    pages->moved++;
    if (handle)
        pages_keep_spare(pages, handle, span);
    pages_changed(pages);
    lock_give(&pages->lock);
    return handle;
}
