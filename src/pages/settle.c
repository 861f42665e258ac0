/* settle.c: finding out whether the GPU has finished with idle pages. A freed block may still be
 * used by work in flight on the stream of its segment; what other streams do with it PyTorch tracks
 * itself, and calls the block free only afterwards. So one event on each stream of a segment,
 * recorded after the pages became idle, is enough. Where it is not known that PyTorch tracked it,
 * the whole context is waited for. It must never ask while anything is captured: that would end the
 * capture. */
#include "pages/internal.h"

#include <sched.h>

/* The handle of "this thread's own stream" means another stream in every thread. */
#define PER_THREAD_STREAM ((uint64_t)2)

/* Threads that are asking the driver now, of all devices: a capture, or the end of a stream, waits
 * for them. */
static atomic_uint asking;

/* Being the current context matters: the default stream's handle is the same in all of them. */
struct question {
    bool possible;
    CUcontext before;
};

static struct question begin_asking(const struct pages *pages) {
    struct question question = {0};
    atomic_fetch_add(&asking, 1);
    question.possible = !(pages->capturing && pages->capturing()) &&
                        REAL(cuCtxGetCurrent)(&question.before) == CUDA_SUCCESS &&
                        (question.before == pages->context ||
                         REAL(cuCtxSetCurrent)(pages->context) == CUDA_SUCCESS);
    return question;
}

static void end_asking(const struct pages *pages, const struct question *question) {
    if (question->possible && question->before != pages->context)
        REAL(cuCtxSetCurrent)(question->before);
    atomic_fetch_sub(&asking, 1);
}

void pages_capture_begins(void) {
    while (atomic_load(&asking) > 0)
        sched_yield();
}

void pages_forget(struct pages *pages) {
    atomic_store(&asking, 0);
    if (pages)
        lock_force_open(&pages->lock);
}

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

/* Its work may still run: from now on only the whole context tells. Who is asking it just now must
 * come to an end before it goes. */
void pages_stream_gone(struct pages *pages, uint64_t stream) {
    bool known = false;
    lock_take(&pages->lock);
    for (size_t i = 0; i < pages->stream_count; i++)
        known = known || pages->streams[i].stream == stream;
    pages->whole_context = pages->whole_context || known;
    lock_give(&pages->lock);
    while (known && atomic_load(&asking) > 0)
        sched_yield();
}

uint64_t pages_tick(struct pages *pages) {
    lock_take(&pages->lock);
    uint64_t tick = pages->table.tick;
    lock_give(&pages->lock);
    return tick;
}

uint64_t pages_settled_tick(struct pages *pages) {
    lock_take(&pages->lock);
    uint64_t tick = pages->table.settled_tick;
    lock_give(&pages->lock);
    return tick;
}

static void settled(struct pages *pages, uint64_t tick) {
    lock_take(&pages->lock);
    if (tick > pages->table.settled_tick)
        pages->table.settled_tick = tick;
    lock_give(&pages->lock);
}

/* Events on the streams we know do not tell. The lock must be held. */
static bool needs_whole_context(const struct pages *pages) {
    return pages->whole_context || pages->unsure_tick > pages->table.settled_tick;
}

static bool wait_for_streams(struct pages *pages, size_t count) {
    bool over = true;
    for (size_t i = 0; over && i < count; i++)
        over = REAL(cuStreamSynchronize)((CUstream)(uintptr_t)pages->streams[i].stream) ==
               CUDA_SUCCESS;
    return over;
}

bool pages_settle_now(struct pages *pages) {
    struct question question = begin_asking(pages);
    lock_take(&pages->lock);
    uint64_t tick = pages->table.tick;
    size_t count = pages->stream_count;
    bool whole = needs_whole_context(pages);
    pages->figures.waits += question.possible;
    lock_give(&pages->lock);
    bool over = question.possible &&
                (whole ? REAL(cuCtxSynchronize)() == CUDA_SUCCESS : wait_for_streams(pages, count));
    end_asking(pages, &question);
    if (over)
        settled(pages, tick);
    return over;
}

/* Records one event on each known stream. False: events do not tell. */
static bool begin(struct pages *pages) {
    struct settling *settling = &pages->settling;
    lock_take(&pages->lock);
    settling->tick = pages->table.tick;
    settling->streams = pages->stream_count;
    bool possible = !needs_whole_context(pages);
    lock_give(&pages->lock);
    for (size_t i = 0; possible && i < settling->streams; i++)
        possible =
            REAL(cuEventRecord)(pages->streams[i].event,
                                (CUstream)(uintptr_t)pages->streams[i].stream) == CUDA_SUCCESS;
    settling->pending = possible;
    return possible;
}

static bool all_passed(const struct pages *pages) {
    for (size_t i = 0; i < pages->settling.streams; i++)
        if (REAL(cuEventQuery)(pages->streams[i].event) != CUDA_SUCCESS)
            return false;
    return true;
}

/* False: only a wait can tell. */
static bool look(struct pages *pages) {
    struct settling *settling = &pages->settling;
    if (!settling->pending && !begin(pages))
        return false;
    if (all_passed(pages)) {
        settling->pending = false;
        settled(pages, settling->tick);
    }
    return true;
}

void pages_settle_later(struct pages *pages, bool may_wait) {
    if (atomic_exchange(&pages->settling.taken, true))
        return; /* another thread looks */
    struct question question = begin_asking(pages);
    bool looked = !question.possible || look(pages);
    end_asking(pages, &question);
    atomic_store(&pages->settling.taken, false);
    if (!looked && may_wait)
        pages_settle_now(pages);
}
