/* fence.c: finding out whether the GPU has finished with idle pages. A freed block may still be
 * used by work in flight on the stream of its segment; what other streams do with it PyTorch tracks
 * itself, and calls the block free only afterwards. So one event on each stream of a segment,
 * recorded after the pages became idle, is enough. Where it is not known that PyTorch tracked it,
 * the whole context is waited for. It must never ask while anything is captured: that would end the
 * capture. */
#include "vm/vm_internal.h"

#include <sched.h>

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
    if (!pages)
        return;
    pages->making = 0;
    atomic_store(&pages->settling.taken, false);
    lock_force_open(&pages->lock);
}

/* The place of a stream that lives; stream_count: none. The lock is held. */
static size_t place_of(const struct pages *pages, uint64_t stream) {
    size_t i = 0;
    while (i < pages->stream_count &&
           (pages->streams[i].state != STREAM_LIVE || pages->streams[i].stream != stream))
        i++;
    return i;
}

/* The lock is held. */
static size_t free_place(const struct pages *pages) {
    size_t i = 0;
    while (i < pages->stream_count && pages->streams[i].state != STREAM_NONE)
        i++;
    return i;
}

void pages_know_stream(struct pages *pages, uint64_t stream) {
    lock_take(&pages->lock);
    bool known = pages->whole_context || place_of(pages, stream) < pages->stream_count;
    size_t place = known ? 0 : free_place(pages);
    if (!known && (stream == STREAM_PER_THREAD || place == MAX_STREAMS)) {
        pages->whole_context = true;
    } else if (!known) {
        pages->streams[place].stream = stream;
        pages->streams[place].state = STREAM_LIVE;
        pages->streams[place].pending = false;
        pages->stream_count += place == pages->stream_count;
    }
    lock_give(&pages->lock);
}

static struct known_stream stream_at(struct pages *pages, size_t i) {
    lock_take(&pages->lock);
    struct known_stream known = pages->streams[i];
    lock_give(&pages->lock);
    return known;
}

/* Behind all work of the stream so far. */
static bool record(struct pages *pages, size_t i) {
    struct known_stream known = stream_at(pages, i);
    if (!known.event) {
        if (REAL(cuEventCreate)(&known.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return false;
        lock_take(&pages->lock);
        pages->streams[i].event = known.event;
        lock_give(&pages->lock);
    }
    return REAL(cuEventRecord)(known.event, (CUstream)(uintptr_t)known.stream) == CUDA_SUCCESS;
}

/* Whoever is asking the stream just now must come to an end before it goes. Its work may still run:
 * an event of ours tells when that is over; where none can be recorded, only the whole context does
 * from now on. */
void pages_stream_gone(struct pages *pages, uint64_t stream) {
    lock_take(&pages->lock);
    size_t place = place_of(pages, stream);
    bool known = place < pages->stream_count;
    page_table_stream_gone(&pages->table, stream);
    pages->going += known;
    lock_give(&pages->lock);
    if (!known)
        return;
    while (atomic_load(&asking) > 0)
        sched_yield();
    struct question question = begin_asking(pages);
    bool recorded = question.possible && record(pages, place);
    end_asking(pages, &question);
    lock_take(&pages->lock);
    pages->streams[place].state = recorded ? STREAM_GONE : STREAM_NONE;
    pages->whole_context = pages->whole_context || !recorded;
    pages->going--;
    lock_give(&pages->lock);
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
    return pages->whole_context || pages->going || pages->unsure_tick > pages->table.settled_tick;
}

static bool wait_for_streams(struct pages *pages, size_t count) {
    bool over = true;
    for (size_t i = 0; over && i < count; i++) {
        struct known_stream known = stream_at(pages, i);
        if (known.state == STREAM_LIVE)
            over = REAL(cuStreamSynchronize)((CUstream)(uintptr_t)known.stream) == CUDA_SUCCESS;
        else if (known.state == STREAM_GONE)
            over = REAL(cuEventSynchronize)(known.event) == CUDA_SUCCESS;
    }
    return over;
}

bool pages_settle_now(struct pages *pages) {
    struct question question = begin_asking(pages);
    lock_take(&pages->lock);
    uint64_t tick = pages->table.tick;
    size_t count = pages->stream_count;
    bool whole = needs_whole_context(pages);
    pages->figures.waits += question.possible;
    pages_changed(pages);
    lock_give(&pages->lock);
    bool over = question.possible &&
                (whole ? REAL(cuCtxSynchronize)() == CUDA_SUCCESS : wait_for_streams(pages, count));
    end_asking(pages, &question);
    if (over)
        settled(pages, tick);
    return over;
}

/* Most streams have nothing to do; only behind the work of the others an event is recorded. False:
 * it cannot be found out. */
static bool begin_one(struct pages *pages, size_t i) {
    struct known_stream known = stream_at(pages, i);
    CUresult result = known.state == STREAM_LIVE
                          ? REAL(cuStreamQuery)((CUstream)(uintptr_t)known.stream)
                          : CUDA_SUCCESS;
    bool busy = result == CUDA_ERROR_NOT_READY;
    lock_take(&pages->lock);
    pages->streams[i].pending = busy || known.state == STREAM_GONE;
    lock_give(&pages->lock);
    return busy ? record(pages, i) : result == CUDA_SUCCESS;
}

/* False: events do not tell. */
static bool begin(struct pages *pages) {
    struct settling *settling = &pages->settling;
    lock_take(&pages->lock);
    settling->tick = pages->table.tick;
    settling->streams = pages->stream_count;
    bool possible = !needs_whole_context(pages);
    lock_give(&pages->lock);
    for (size_t i = 0; possible && i < settling->streams; i++)
        possible = begin_one(pages, i);
    settling->pending = possible;
    return possible;
}

/* What a stream that is gone had to do is over: its place is free. */
static void passed(struct pages *pages, size_t i) {
    lock_take(&pages->lock);
    pages->streams[i].pending = false;
    if (pages->streams[i].state == STREAM_GONE)
        pages->streams[i].state = STREAM_NONE;
    lock_give(&pages->lock);
}

static bool all_passed(struct pages *pages) {
    for (size_t i = 0; i < pages->settling.streams; i++) {
        struct known_stream known = stream_at(pages, i);
        if (known.pending && REAL(cuEventQuery)(known.event) != CUDA_SUCCESS)
            return false;
        if (known.pending)
            passed(pages, i);
    }
    return true;
}

static void end_if_passed(struct pages *pages) {
    struct settling *settling = &pages->settling;
    if (all_passed(pages)) {
        settling->pending = false;
        settled(pages, settling->tick);
    }
}

/* What was begun a while ago tells nothing of what has become idle since: once it is over, the next
 * begins, which most of the time ends at once. False: only a wait can tell. */
static bool look(struct pages *pages) {
    struct settling *settling = &pages->settling;
    if (settling->pending)
        end_if_passed(pages);
    if (settling->pending)
        return true;
    if (!begin(pages))
        return false;
    end_if_passed(pages);
    return true;
}

/* Another thread that looks may have begun before what is idle now was. */
void pages_settle_in_turn(struct pages *pages) {
    while (atomic_load(&pages->settling.taken))
        sched_yield();
    pages_settle_later(pages, false);
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
