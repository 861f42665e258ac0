/* settle.c: finding out whether the GPU has finished with idle pages. A freed block may still be
 * used by work in flight on the stream of its segment; what other streams do with it PyTorch tracks
 * itself, and calls the block free only afterwards. So one event on each stream of a segment,
 * recorded after the pages became idle, is enough. It must never ask a stream that is captured. */
#include "pages/internal.h"

/* The handle of "this thread's own stream" means another stream in every thread. */
#define PER_THREAD_STREAM ((uint64_t)2)

void pages_know_stream(struct pages *pages, uint64_t stream) {
    real_cuEventCreate_t create = REAL(cuEventCreate);
    CUevent event = NULL;
    lock_take(&pages->lock);
    bool known = pages->whole_context;
    for (size_t i = 0; i < pages->stream_count; i++)
        known = known || pages->streams[i].stream == stream;
    lock_give(&pages->lock);
    if (known)
        return;
    bool usable = stream != PER_THREAD_STREAM && create &&
                  create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    lock_take(&pages->lock);
    if (usable && pages->stream_count < MAX_STREAMS)
        pages->streams[pages->stream_count++] = (struct known_stream){stream, event};
    else
        pages->whole_context = true;
    lock_give(&pages->lock);
}

/* Its work may still run: from now on only the whole context tells. */
void pages_stream_gone(struct pages *pages, uint64_t stream) {
    lock_take(&pages->lock);
    for (size_t i = 0; i < pages->stream_count; i++)
        if (pages->streams[i].stream == stream)
            pages->whole_context = true;
    lock_give(&pages->lock);
}

static void settled(struct pages *pages, uint64_t tick) {
    lock_take(&pages->lock);
    if (tick > pages->table.settled_tick)
        pages->table.settled_tick = tick;
    lock_give(&pages->lock);
}

bool pages_settle_now(struct pages *pages) {
    real_cuStreamSynchronize_t wait_stream = REAL(cuStreamSynchronize);
    real_cuCtxSynchronize_t wait_context = REAL(cuCtxSynchronize);
    lock_take(&pages->lock);
    uint64_t tick = pages->table.tick;
    size_t count = pages->stream_count;
    bool whole = pages->whole_context;
    pages->figures.waits++;
    lock_give(&pages->lock);
    bool over = whole ? wait_context && wait_context() == CUDA_SUCCESS : wait_stream != NULL;
    for (size_t i = 0; over && !whole && i < count; i++)
        over = wait_stream((CUstream)(uintptr_t)pages->streams[i].stream) == CUDA_SUCCESS;
    if (over)
        settled(pages, tick);
    return over;
}

/* Records one event on each known stream. */
static void begin(struct pages *pages) {
    real_cuEventRecord_t record = REAL(cuEventRecord);
    lock_take(&pages->lock);
    pages->settle_tick = pages->table.tick;
    pages->settle_streams = pages->stream_count;
    bool possible = !pages->whole_context && record;
    lock_give(&pages->lock);
    for (size_t i = 0; possible && i < pages->settle_streams; i++)
        possible = record(pages->streams[i].event, (CUstream)(uintptr_t)pages->streams[i].stream) ==
                   CUDA_SUCCESS;
    pages->settle_pending = possible;
}

static bool all_passed(const struct pages *pages) {
    real_cuEventQuery_t query = REAL(cuEventQuery);
    for (size_t i = 0; i < pages->settle_streams; i++)
        if (!query || query(pages->streams[i].event) != CUDA_SUCCESS)
            return false;
    return true;
}

void pages_settle_later(struct pages *pages) {
    if (!pages->settle_pending)
        begin(pages);
    if (!pages->settle_pending || !all_passed(pages))
        return;
    pages->settle_pending = false;
    settled(pages, pages->settle_tick);
}
