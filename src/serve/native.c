/* native.c: see native.h: between the hooks and the page engine of src/pages. It must keep two
 * promises: whoever computes free + reserved - allocated gets what can really be had, and memory
 * that only waits for PyTorch's next block is never missing elsewhere. */
#include "serve/native.h"

#include "base/log.h"
#include "vm/vm.h"
#include "cuda/errors.h"
#include "govern/overcommit.h"
#include "serve/async.h"
#include "govern/trim.h"
#include "track/stream.h"
#include "govern/decay.h"

/* At the first segment of a device, in a thread whose context is current. */
struct pages *paged_open(struct device *device) {
    const struct options *options = record_options();
    bool untried = false;
    if (!mode_pages(device) ||
        !atomic_compare_exchange_strong(&device->pages_tried, &untried, true))
        return paged_engine(device);
    struct pages *pages =
        errors_find() /* a block without pages must be refused, never handed out */
            ? pages_open(device_index(device), record_capturing,
                         options->lowvram ? 0 : options->threshold)
            : NULL;
    atomic_store_explicit(&device->pages, pages, memory_order_release);
    pointer_engine_opened(device_index(device));
    mode_tried(device, pages != NULL);
    if (pages)
        LOG(LOG_DEBUG, "gpu%u: costs of the driver's calls: %s", device_index(device),
            pages_costs(pages));
    if (pages && options->spill && !pages_may_spill(pages, options->spill))
        LOG(LOG_WARN, "gpu%u cannot map host memory: VRAMGC_SPILL is not used there",
            device_index(device));
    if (!pages && options->mode == MODE_COMPACT)
        LOG(LOG_WARN, "gpu%u cannot map memory page by page; mode flush is used there",
            device_index(device));
    return pages;
}

void paged_account(struct device *device) {
    struct pages *pages = paged_engine(device);
    if (!pages)
        return;
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t changes = pages_changes(pages);
    if (LIKELY(changes == atomic_load_explicit(&device->page_changes, memory_order_relaxed)) &&
        !figure_get(&stats->spilled_bytes.current))
        return; /* at most block events; how long anything is spilled grows by itself */
    lock_take(&device->lock);
    struct pages_figures figures = pages_figures(pages);
    uint64_t now = figures.physical_bytes;
    atomic_store_explicit(&device->page_changes, changes, memory_order_relaxed);
    uint64_t before = figure_get(&stats->page_bytes.current);
    gauge_set(&stats->page_bytes, now);
    figure_set(&stats->page_maps, figures.maps);
    figure_set(&stats->page_unmaps, figures.unmaps);
    figure_set(&stats->page_waits, figures.waits);
    figure_set(&stats->page_calls, figures.calls);
    gauge_set(&stats->spilled_bytes, figures.spilled_bytes);
    figure_set(&stats->spilled_ns, figures.spilled_ns);
    gauge_add(&stats->held_bytes, minus_u64(now, before)); /* inside, for resets and each other */
    gauge_subtract(&stats->held_bytes, minus_u64(before, now));
    lock_give(&device->lock);
}

enum record_paged record_paged_segment(uint64_t bytes, void **out) {
    struct record_thread *thread = &record_thread;
    struct device *device = record_ready_in_context() ? device_current() : NULL;
    if (!device || !thread->stream_asked || thread->stream_capturing || record_capturing() ||
        bytes % HEAP_PAGE_BYTES)
        return RECORD_NOT_PAGED;
    struct pages *pages = paged_open(device);
    if (!pages)
        return RECORD_NOT_PAGED;
    refusal_segment_asked(device, bytes);
    if (overcommit_refuses(device, pages, bytes))
        return RECORD_PAGED_REFUSED;
    uint64_t address = pages_segment(pages, bytes, thread->stream);
    if (!address) {
        record_refused(ID_cudaMalloc, bytes);
        return RECORD_PAGED_REFUSED;
    }
    record_allocated(CLASS_PAGED, address, bytes, true);
    *out = (void *)(uintptr_t)address;
    return RECORD_PAGED;
}

bool record_paged_end(const struct record_taken *taken) {
    if (taken->known && taken->class == CLASS_PAGED_POOL)
        return record_pool_give(ID_cudaFree, taken, RECORD_NO_STREAM);
    struct device *device =
        taken->known && taken->class == CLASS_PAGED ? device_if_ready(taken->device) : NULL;
    struct pages *pages = device ? paged_engine(device) : NULL;
    bool ended = pages && pages_end(pages, taken->address);
    if (ended) {
        paged_account(device);
        returns_note(device);
    }
    return ended;
}

bool paged_use(struct device *device, uint64_t address, uint64_t bytes) {
    struct pages *pages = paged_engine(device);
    if (!pages)
        return true;
    bool used = pages_use(pages, address, bytes, record_capturing());
    paged_want_spare(pages);
    return used;
}

void paged_want_spare(struct pages *pages) {
    if (UNLIKELY(pages_wants_spare(pages)))
        ticker_wake();
}

void paged_make_spare(struct device *device) {
    struct pages *pages = paged_engine(device);
    if (pages && !record_capturing() && pages_make_spare(pages))
        paged_account(device);
}

void paged_refused(struct device *device, uint64_t address, uint64_t bytes) {
    struct pages *pages = paged_engine(device);
    if (pages)
        pages_refused(pages, address, bytes);
}

void paged_leave(struct device *device, uint64_t address, uint64_t bytes, bool sure) {
    struct pages *pages = paged_engine(device);
    if (pages)
        pages_leave(pages, address, bytes, sure && !record_capturing());
}

uint64_t paged_idle_bytes(struct device *device) {
    struct pages *pages = paged_engine(device);
    if (!pages)
        return 0;
    struct pages_figures figures = pages_figures(pages);
    return figures.idle_bytes + figures.kept_bytes;
}

uint64_t paged_give_back(struct device *device, uint64_t bytes) {
    struct pages *pages = paged_engine(device);
    uint64_t given = pages ? pages_give_back(pages, bytes) : 0;
    paged_account(device);
    return given;
}

/* A caller that is not served by the engine was refused: what we keep for PyTorch, or what the
 * driver's pool keeps, would have done. */
bool record_rescue(uint64_t bytes) {
    struct device *device = record_is_on() ? device_current() : NULL;
    struct pages *pages = device ? paged_engine(device) : NULL;
    uint64_t given = pages ? returns_rescue(device, pages, bytes) : 0;
    return given > 0 || (device && pools_rescue(device, bytes));
}

void paged_tick(struct device *device, uint64_t now) {
    struct pages *pages = paged_engine(device);
    if (!pages)
        return;
    pages_spill_tick(pages);
    returns_expire(device, pages, now);
}

/* free as the program is to see it: PyTorch will ask for pages for what it holds without any, what
 * it has made and not mapped yet included, but for the blocks that were refused: those it never
 * hands out again. */
uint64_t record_free_as_seen(uint64_t free_bytes) {
    struct device *device = record_is_on() ? device_current() : NULL;
    struct pages *pages = device ? paged_engine(device) : NULL;
    if (!pages)
        return free_bytes;
    struct pages_figures figures = pages_figures(pages);
    return minus_u64(free_bytes + figures.physical_bytes + figures.refused_bytes,
                     figures.reserved_bytes + record_thread.pages_ahead_bytes +
                         paged_async_bytes(device));
}

/* The default streams cannot be destroyed: the call fails, and they must be asked as before. */
void record_stream_gone(uint64_t stream) {
    if (stream <= STREAM_PER_THREAD)
        return;
    paged_async_stream_gone(stream);
    streams_gone(stream);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct pages *pages = paged_engine_at(i);
        if (pages)
            pages_stream_gone(pages, stream);
    }
}

void paged_capture_nears(unsigned index) {
    struct pages *pages = paged_engine_at(index);
    if (pages)
        pages_capture_nears(pages);
}

void paged_capture_begins(void) {
    pages_capture_begins();
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct pages *pages = paged_engine_at(i);
        if (pages)
            pages_pin_live(pages);
    }
}

void paged_forget(void) {
    paged_async_forget();
    returns_forget();
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        pages_forget(device ? paged_engine(device) : NULL);
    }
}

void paged_reset(struct device *device) {
    paged_async_reset(device);
    atomic_store(&device->pages, NULL); /* its books are few and stay: another thread may read */
    atomic_store(&device->page_changes, 0);
    gauge_set(&device->out->stats.page_bytes, 0);
    gauge_set(&device->out->stats.spilled_bytes, 0);
    atomic_store(&device->pages_tried, false);
    pointer_reset(device_index(device));
}
