/* fences.c: how the engine asks the GPU, call by call (see threads.c): how many calls that takes,
 * and that it is asked for nothing. It must not depend on how long a call takes. */
#include "threads.h"

enum { MANY = 128, FIRST = 5000 };

static bool is_fenced(void) {
    return vm_fenced_epoch(test.vm) == vm_epoch(test.vm);
}

/* So many calls until the GPU is known to have finished. */
static unsigned calls_to_fence(void) {
    unsigned before = atomic_load(&fake.asked);
    do
        vm_fence_poll(test.vm, false);
    while (!is_fenced());
    return atomic_load(&fake.asked) - before;
}

/* A page becomes idle, with so many streams in the context: the calls. Then there is nothing to ask
 * for, and nobody is. */
static unsigned calls_with_many_streams(void) {
    for (uint64_t i = 0; i < MANY; i++)
        vm_stream_add(test.vm, FIRST + i);
    uint64_t segment = segment_in_use(1);
    vm_mark_idle(test.vm, segment, PAGE_BYTES);
    unsigned calls = calls_to_fence(), before = atomic_load(&fake.asked);
    for (int i = 0; i < 10; i++)
        vm_fence_poll(test.vm, true);
    MUST(atomic_load(&fake.asked) == before && waits() == 0);
    MUST(vm_unreserve(test.vm, segment));
    return calls;
}

/* --- each stream --- */

void many_streams(void) {
    const struct decay_limits at_once = {.kept_bytes = UINT64_MAX};
    MUST(calls_with_many_streams() > MANY);
    uint64_t segment = segment_in_use(1);
    vm_mark_idle(test.vm, segment, PAGE_BYTES);
    while (!is_fenced())
        vm_decay(test.vm, &at_once, clock_ns());
    MUST(physical() == 0 && vm_unreserve(test.vm, segment));
}

/* --- the whole context at once --- */

void context_event(void) {
    enum { RECORD = 1, QUERIES = 3 };
    fake_install_context_event();
    vm_ask_context(test.vm);
    MUST(calls_with_many_streams() <= RECORD + QUERIES);
    /* A stream that was not known, or that ends, is not waited for. */
    uint64_t segment = segment_in_use(1);
    vm_mark_idle(test.vm, segment, PAGE_BYTES);
    vm_stream_gone(test.vm, FIRST);
    fake.answers = 5;
    MUST(calls_to_fence() > QUERIES && waits() == 0);
    MUST(vm_unreserve(test.vm, segment));
}

static CUresult refuse(CUcontext context, CUevent event) {
    (void)context;
    (void)event;
    atomic_fetch_add(&fake.asked, 1);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Asked once, and then each stream as before. */
void context_refused(void) {
    atomic_store(&real_pointers[ID_cuCtxRecordEvent], (void *)refuse);
    vm_ask_context(test.vm);
    MUST(calls_with_many_streams() > MANY);
    MUST(!test.vm->fence.whole);
}

/* --- before a capture --- */

static void *end_asking_soon(void *unused) {
    usleep(20000);
    atomic_store(&test.vm->fence.taken, false);
    return unused;
}

/* Its work waits for this very thread: that costs a moment, and once. */
static void held_up(void) {
    fake.answers = ALWAYS;
    uint64_t before_ns = clock_ns();
    vm_capture_prepare(test.vm);
    MUST(!is_fenced() && waits() == 2 && clock_ns() - before_ns >= 100 * MILLISECOND_NS);
    unsigned asked = atomic_load(&fake.asked);
    vm_capture_prepare(test.vm);
    MUST(!is_fenced() && waits() == 2 && atomic_load(&fake.asked) < asked + 20);
    fake.answers = 0;
    vm_capture_prepare(test.vm);
    MUST(is_fenced() && waits() == 2);
}

/* Before a capture the GPU is asked once more, though another thread is asking it just now and may
 * have begun too early; and waited for where memory is short, only there. */
void capture_nears(void) {
    enum { PAGES = 160, MORE = LARGE_CAPACITY - LARGE_CAPACITY / 20 - PAGES };
    uint64_t first = segment_in_use(PAGES);
    vm_mark_idle(test.vm, first, PAGES * PAGE_BYTES);
    pthread_t other;
    atomic_store(&test.vm->fence.taken, true);
    MUST(pthread_create(&other, NULL, end_asking_soon, NULL) == 0);
    vm_capture_prepare(test.vm);
    MUST(is_fenced() && pthread_join(other, NULL) == 0);
    use(first, PAGES);
    fake.answers = ALWAYS;
    vm_capture_prepare(test.vm);
    MUST(!is_fenced() && waits() == 0);
    uint64_t second = segment_in_use(MORE);
    vm_mark_idle(test.vm, second, MORE * PAGE_BYTES);
    fake.answers = 100;
    vm_capture_prepare(test.vm);
    MUST(is_fenced() && waits() == 1);
    uint64_t third = segment_in_use(1);
    vm_mark_idle(test.vm, third, PAGE_BYTES);
    held_up();
    MUST(vm_unreserve(test.vm, third));
    atomic_store(&test.vm->fence.taken, true); /* in the parent of a forked child */
    vm_forget(test.vm);
    vm_capture_prepare(test.vm);
    MUST(vm_unreserve(test.vm, first) && vm_unreserve(test.vm, second));
}
