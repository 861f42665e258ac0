/* fence.c: finding out whether the GPU has finished with idle pages. A freed block may still be
 * used by work in flight on any stream: PyTorch tracks only the streams that it is told of, and an
 * extension's need not wait for each other before the memory is allocated again. So the whole
 * context is asked after the pages became idle: by one event where the driver has that (CUDA 12.5),
 * else stream by stream. A stream that was idle at the last fence is asked again: only the driver
 * knows whether something was launched there since. Where not all streams can be asked, the context
 * is waited for. It must never ask while anything is captured: that would end the capture. */
#include "vm/vm_internal.h"

/* Threads that are asking the driver now, of all devices: a capture, or the end of a stream, waits
 * for them. Those that wait for the GPU name no stream; that takes as long as its work, which may
 * wait for the thread that would wait for them. */
static struct {
    atomic_uint asking, waiting;
    struct bell answered;
} self;

/* How often a thread looks again that waits for the GPU only for a moment: a tenth of a second,
 * which a user takes for at once (Miller 1968, from experience). */
enum { PATIENCE = 1000 };
#define STEP_NS (MILLISECOND_NS / 10)

/* Being the current context matters: the default stream's handle is the same in all of them. */
struct question {
    bool possible;
    CUcontext context, before;
};

static bool captures(bool (*capturing)(void)) {
    return capturing && capturing();
}

static struct question begin_asking(CUcontext context, bool (*capturing)(void)) {
    struct question question = {.context = context};
    atomic_fetch_add(&self.asking, 1);
    question.possible =
        !captures(capturing) && real_current_context(&question.before) &&
        (question.before == context || REAL(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    return question;
}

static void count_off(atomic_uint *count) {
    atomic_fetch_sub(count, 1);
    bell_ring(&self.answered);
}

static void restore_context(const struct question *question) {
    if (question->possible && question->before != question->context)
        REAL(cuCtxSetCurrent)(question->before);
}

static void end_asking(const struct question *question) {
    restore_context(question);
    count_off(&self.asking);
}

/* Sleeps until none of the threads that are counted asks. */
static void wait_for_answers(atomic_uint *count) {
    for (;;) {
        unsigned rings = bell_rings(&self.answered);
        if (!atomic_load(count))
            return;
        bell_wait(&self.answered, rings);
    }
}

/* A thread that waits for longer than a moment is inside the driver, and called it before the
 * capture began. */
void vm_capture_begin(void) {
    wait_for_answers(&self.asking);
    for (int i = 0; (i < PATIENCE) && self.waiting; i++)
        sleep_ns(STEP_NS);
}

void vm_forget(struct vm *vm) {
    atomic_store(&self.asking, 0);
    atomic_store(&self.waiting, 0);
    if (!vm)
        return;
    atomic_store(&vm->fence.taken, 0);
    generation_settle(&vm->cache.moves, 0);
    lock_force_open(&vm->lock);
}

/* The place of a stream that lives, or, of whichever stream, a free one; streams.count: none. The
 * lock is held. */
static size_t stream_slot(const struct vm *vm, enum slot_state state, uint64_t stream) {
    const struct known_stream *slots = vm->streams.slots;
    size_t i = 0;
    while (i < vm->streams.count &&
           (slots[i].state != state || (state == SLOT_LIVE && slots[i].stream != stream)))
        i++;
    return i;
}

void vm_stream_add(struct vm *vm, uint64_t stream) {
    LOCKED(&vm->lock);
    if (vm->streams.sync_context || stream_slot(vm, SLOT_LIVE, stream) < vm->streams.count)
        return;
    size_t slot = stream_slot(vm, SLOT_FREE, 0);
    if (stream == STREAM_PER_THREAD || slot == MAX_STREAMS) {
        vm->streams.sync_context = true;
        return;
    }
    vm->streams.slots[slot].stream = stream;
    vm->streams.slots[slot].state = SLOT_LIVE;
    vm->streams.slots[slot].pending = false;
    vm->streams.count += slot == vm->streams.count;
}

bool vm_stream_known(struct vm *vm, uint64_t stream) {
    LOCKED(&vm->lock);
    return stream_slot(vm, SLOT_LIVE, stream) < vm->streams.count;
}

static struct known_stream stream_at(struct vm *vm, size_t i) {
    LOCKED(&vm->lock);
    return vm->streams.slots[i];
}

/* Behind all work of the stream so far. */
static bool record(struct vm *vm, size_t i) {
    struct known_stream known = stream_at(vm, i);
    if (!known.event) {
        if (REAL(cuEventCreate)(&known.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return false;
        lock_take(&vm->lock);
        vm->streams.slots[i].event = known.event;
        lock_give(&vm->lock);
    }
    return REAL(cuEventRecord)(known.event, (CUstream)(uintptr_t)known.stream) == CUDA_SUCCESS;
}

/* --- the whole context --- */

void vm_ask_context(struct vm *vm) {
    unsigned flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
    CUevent *event = &vm->returned.event;
    bool possible = REAL(cuCtxRecordEvent) != NULL;
    if (possible && REAL(cuEventCreate)(event, flags) != CUDA_SUCCESS)
        *event = NULL;
    atomic_store(&vm->fence.whole, possible);
}

/* Behind all work of the context so far. A driver that refuses is not asked again in this way: it
 * may have been a capture of which we do not know. */
static bool record_context(struct vm *vm) {
    struct fence *fence = &vm->fence;
    if (!atomic_load(&fence->whole))
        return false;
    bool recorded = (fence->event ||
                     REAL(cuEventCreate)(&fence->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
                    REAL(cuCtxRecordEvent)(vm->context, fence->event) == CUDA_SUCCESS;
    atomic_store(&fence->whole, recorded);
    return recorded;
}

/* An event in an idle context is reached within some microseconds: one that was just recorded is
 * asked a few times. */
static bool event_passed(CUevent event, bool anew) {
    enum { TIMES = 3 };
    bool passed = false;
    for (int i = 0; !passed && i < (anew ? TIMES : 1); i++)
        passed = REAL(cuEventQuery)(event) == CUDA_SUCCESS;
    return passed;
}

/* --- streams that end --- */

/* A thread that is just asking the stream must be done before the program destroys it. The stream's
 * work may still run: an event of ours tells when it is over; where none can be recorded, only the
 * whole context tells from now on. */
void vm_stream_gone(struct vm *vm, uint64_t stream) {
    lock_take(&vm->lock);
    size_t slot = stream_slot(vm, SLOT_LIVE, stream);
    bool known = slot < vm->streams.count;
    page_table_stream_gone(&vm->table, stream);
    vm->streams.going += known;
    lock_give(&vm->lock);
    if (!known)
        return;
    wait_for_answers(&self.asking);
    struct question question = begin_asking(vm->context, vm->capturing);
    bool recorded = question.possible && record(vm, slot);
    end_asking(&question);
    LOCKED(&vm->lock);
    vm->streams.slots[slot].state = recorded ? SLOT_GONE : SLOT_FREE;
    vm->streams.gone += vm->streams.slots[slot].state == SLOT_GONE;
    vm->streams.sync_context = vm->streams.sync_context || !recorded;
    vm->streams.going--;
}

uint64_t vm_epoch(struct vm *vm) {
    return vm_read(vm, &vm->table.epoch);
}

uint64_t vm_fenced_epoch(struct vm *vm) {
    return vm_read(vm, &vm->table.fenced_epoch);
}

static void fenced(struct vm *vm, uint64_t epoch) {
    LOCKED(&vm->lock);
    if (epoch > vm->table.fenced_epoch)
        vm->table.fenced_epoch = epoch;
}

static void count_wait(struct vm *vm) {
    LOCKED(&vm->lock);
    vm->figures.waits++;
    vm_changed(vm);
}

/* Until that event, or for the whole context; what was idle at that epoch is over then. While it
 * lasts a stream may go: it is not named. */
static bool wait_fenced(struct vm *vm, CUevent event, uint64_t epoch) {
    struct question question = begin_asking(vm->context, vm->capturing);
    if (question.possible)
        count_wait(vm);
    atomic_uint *waiting = &self.waiting;
    atomic_fetch_add(waiting, 1);
    count_off(&self.asking);
    bool over = question.possible && (event ? REAL(cuEventSynchronize)(event)
                                            : REAL(cuCtxSynchronize)()) == CUDA_SUCCESS;
    restore_context(&question);
    count_off(waiting);
    if (over)
        fenced(vm, epoch);
    return over;
}

bool vm_fence_wait(struct vm *vm) {
    return !vm->in_steps && wait_fenced(vm, NULL, vm_epoch(vm));
}

/* --- until PyTorch returned memory --- */

/* The event comes after all work on what was idle at that epoch; a later one comes after it, too.
 */
void vm_fence_returned(struct vm *vm) {
    struct question question = begin_asking(vm->context, vm->capturing);
    uint64_t epoch = vm_epoch(vm);
    if (question.possible && vm->returned.event &&
        REAL(cuCtxRecordEvent)(vm->context, vm->returned.event) == CUDA_SUCCESS)
        atomic_store(&vm->returned.epoch, epoch);
    end_asking(&question);
}

bool vm_fence_wait_returned(struct vm *vm) {
    uint64_t epoch = atomic_load(&vm->returned.epoch);
    return epoch > vm_fenced_epoch(vm) && wait_fenced(vm, vm->returned.event, epoch);
}

/* Most streams have nothing to do; only behind the work of the others an event is recorded. Where
 * there is one behind all, only streams that have ended are left. False: it cannot be found out. */
static bool begin_one(struct vm *vm, size_t i, bool whole) {
    struct known_stream known = stream_at(vm, i);
    CUresult result = known.state == SLOT_LIVE && !whole
                          ? REAL(cuStreamQuery)((CUstream)(uintptr_t)known.stream)
                          : CUDA_SUCCESS;
    bool busy = result == CUDA_ERROR_NOT_READY;
    lock_take(&vm->lock);
    vm->streams.slots[i].pending = busy || known.state == SLOT_GONE;
    lock_give(&vm->lock);
    return busy ? record(vm, i) : result == CUDA_SUCCESS;
}

/* False: events do not tell. Those on the streams we know do not where one may be missing. */
static bool begin_fence(struct vm *vm) {
    struct fence *fence = &vm->fence;
    fence->epoch = vm_epoch(vm);
    fence->context_pending = record_context(vm);
    lock_take(&vm->lock);
    bool possible = fence->context_pending || !(vm->streams.sync_context || vm->streams.going);
    fence->streams = fence->context_pending && !vm->streams.gone ? 0 : vm->streams.count;
    lock_give(&vm->lock);
    for (size_t i = 0; possible && i < fence->streams; i++)
        possible = begin_one(vm, i, fence->context_pending);
    fence->pending = possible;
    return possible;
}

/* The slot of a destroyed stream becomes free when its work is over. */
static bool all_passed(struct vm *vm, bool anew) {
    if (vm->fence.context_pending && !event_passed(vm->fence.event, anew))
        return false;
    vm->fence.context_pending = false;
    for (size_t i = 0; i < vm->fence.streams; i++) {
        struct known_stream known = stream_at(vm, i);
        if (!known.pending)
            continue;
        if (REAL(cuEventQuery)(known.event) != CUDA_SUCCESS)
            return false;
        LOCKED(&vm->lock);
        struct known_stream *slot = &vm->streams.slots[i];
        slot->pending = false;
        vm->streams.gone -= slot->state == SLOT_GONE;
        slot->state = slot->state == SLOT_GONE ? SLOT_FREE : slot->state;
    }
    return true;
}

static void end_if_passed(struct vm *vm, bool anew) {
    struct fence *fence = &vm->fence;
    if (all_passed(vm, anew)) {
        fence->pending = false;
        atomic_store(&fence->vain, false);
        fenced(vm, fence->epoch);
    }
}

/* How far the GPU is. UNASKED: another thread looks, or something is captured; UNTOLD: only a wait
 * can tell. */
enum look { UNASKED, UNTOLD, BEHIND, PAST };

/* A fence covers only pages that were idle when it was recorded: once it has passed, the next is
 * recorded, which mostly passes at once. Where nothing has become idle since there is nothing to
 * ask, but (all_work) for what was queued since. */
static enum look look_at_fence(struct vm *vm, bool all_work) {
    struct fence *fence = &vm->fence;
    if (fence->pending)
        end_if_passed(vm, false);
    if (fence->pending)
        return BEHIND;
    if (!all_work && vm_epoch(vm) == vm_fenced_epoch(vm))
        return PAST;
    if (!begin_fence(vm))
        return UNTOLD;
    end_if_passed(vm, true);
    return fence->pending ? BEHIND : PAST;
}

static enum look look_in_turn(struct vm *vm, bool all_work) {
    enum look look = UNASKED;
    if (atomic_exchange(&vm->fence.taken, 1))
        return look;
    struct question question = begin_asking(vm->context, vm->capturing);
    if (question.possible)
        look = look_at_fence(vm, all_work);
    end_asking(&question);
    atomic_store(&vm->fence.taken, 0);
    bell_ring(&self.answered);
    return look;
}

void vm_unmap_at_rest(struct vm *vm) {
    vm->at_rest = true;
}

bool vm_may_unmap(struct vm *vm) {
    return LIKELY(!vm->at_rest) || look_in_turn(vm, true) == PAST;
}

void vm_fence_poll(struct vm *vm, bool may_wait) {
    bool waited = vm->in_steps; /* PyTorch has */
    if (!waited && look_in_turn(vm, false) == UNTOLD && may_wait)
        vm_fence_wait(vm);
}

/* Another thread that looks may have begun before what is idle now was. */
void vm_fence_poll_in_turn(struct vm *vm) {
    wait_for_answers(&vm->fence.taken);
    vm_fence_poll(vm, false);
}

/* After one wait in vain there is no other, so that a stream that is held up costs one patience. */
bool vm_fence_wait_briefly(struct vm *vm) {
    uint64_t epoch = vm_epoch(vm);
    bool over = false;
    for (int i = 0; !over && i < PATIENCE; i++) {
        vm_fence_poll(vm, false);
        over = vm_fenced_epoch(vm) >= epoch;
        if (over || atomic_load(&vm->fence.vain) || captures(vm->capturing))
            return over;
        if (i == 0)
            count_wait(vm);
        sleep_ns(STEP_NS);
    }
    atomic_store(&vm->fence.vain, true);
    return false;
}

/* --- without an engine --- */

/* An event in an idle context is reached at once. One that was not asked for longer than a second
 * says nothing of what has come since. */
static bool is_past(struct vm_past *past, CUcontext context) {
    uint64_t now_ns = clock_ns();
    past->pending = past->pending && now_ns - past->asked_ns < SECOND_NS;
    past->asked_ns = now_ns;
    if (!past->event && REAL(cuEventCreate)(&past->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return true;
    bool record = !past->pending;
    if (record && REAL(cuCtxRecordEvent)(context, past->event) != CUDA_SUCCESS)
        return true;
    past->pending = !event_passed(past->event, record);
    return !past->pending;
}

bool vm_is_past(struct vm_past *past, CUcontext context, bool (*capturing)(void)) {
    if (!REAL(cuCtxRecordEvent))
        return true;
    if (atomic_exchange(&past->taken, 1))
        return false;
    struct question question = begin_asking(context, capturing);
    bool over = question.possible && is_past(past, context);
    end_asking(&question);
    atomic_store(&past->taken, 0);
    return over;
}
