/* order.c: when work is over, what page calls do beside it, and what a capture bears. */
#include "prove/check.h"

#include <pthread.h>

enum { WORK_MS = 200 }; /* longer than what is called beside it takes, also on a busy host */

/* Long work that writes a page at its end, and an event behind it. */
struct work {
    struct place place;
    CUstream stream, other;
    CUevent event;
};

static enum outcome begin_work(struct text *said, struct work *work,
                               CUresult (*hold)(CUstream, unsigned)) {
    WORKS("mapping pages", place_make(&work->place, 4));
    CALL(cuStreamCreate, &work->stream, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamCreate, &work->other, CU_STREAM_NON_BLOCKING);
    CALL(cuEventCreate, &work->event, CU_EVENT_DISABLE_TIMING);
    if (hold)
        WORKS("work", hold(work->stream, WORK_MS));
    WORKS("a kernel", pattern_write(work->stream, work->place.at, 4 * PAGE_BYTES, 31));
    CALL(cuEventRecord, work->event, work->stream);
    return CHECK_PASSED;
}

/* The event is asked until it says that all is over: then another stream must see what was written.
 */
static enum outcome await_work(struct text *said, struct work *work) {
    CUresult answer;
    while ((answer = cu.cuEventQuery(work->event)) == CUDA_ERROR_NOT_READY)
        sleep_ns(MILLISECOND_NS / 10);
    WORKS("cuEventQuery", answer);
    WORKS("a kernel", pattern_check(work->other, work->place.at, 4 * PAGE_BYTES, 31));
    PASS(check_patterns(said));
    CALL(cuEventDestroy_v2, work->event);
    CALL(cuStreamDestroy_v2, work->other);
    WORKS("giving pages back", place_end(&work->place));
    return CHECK_PASSED;
}

static enum outcome end_work(struct text *said, struct work *work) {
    WORKS("the end of work", work_end(work->stream));
    PASS(await_work(said, work));
    CALL(cuStreamDestroy_v2, work->stream);
    return CHECK_PASSED;
}

enum outcome check_event(struct text *said) {
    struct work work;
    PASS(begin_work(said, &work, work_begin));
    EXPECT(cu.cuEventQuery(work.event) == CUDA_ERROR_NOT_READY,
           "an event was over before the work in front of it");
    EXPECT(cu.cuStreamQuery(work.stream) == CUDA_ERROR_NOT_READY,
           "a stream was empty before its work was over");
    return end_work(said, &work);
}

/* Drivers before 12.5 have none: the engine asks each stream there. */
enum outcome check_context_event(struct text *said) {
    struct work work;
    if (!cu.cuCtxRecordEvent) {
        text_add(said, "the driver has none: each stream is asked");
        return CHECK_SKIPPED;
    }
    PASS(begin_work(said, &work, work_begin));
    CUresult recorded = cu.cuCtxRecordEvent(driver_context(), work.event);
    if (recorded == CUDA_SUCCESS)
        EXPECT(cu.cuEventQuery(work.event) == CUDA_ERROR_NOT_READY,
               "the context's event was over before the work of a stream");
    PASS(end_work(said, &work));
    if (recorded != CUDA_SUCCESS)
        text_format(said, "refused (%s): each stream is asked", driver_error_name(recorded));
    return recorded == CUDA_SUCCESS ? CHECK_PASSED : CHECK_SKIPPED;
}

/* The simulated device cannot let go of a stream that is gone: it holds none here. */
enum outcome check_stream_gone(struct text *said) {
    struct work work;
    PASS(begin_work(said, &work, driver_is_simulated() ? NULL : work_begin));
    CALL(cuStreamDestroy_v2, work.stream);
    return await_work(said, &work);
}

/* --- page calls beside running work --- */

static void tell_time(struct text *said, const char *what, uint64_t begin_ns, CUevent event) {
    uint64_t took_ns = clock_ns() - begin_ns;
    text_format(said, "%s%s took ", said->length ? "; " : "", what);
    text_add_duration(said, took_ns);
    text_add(said, cu.cuEventQuery(event) == CUDA_SUCCESS ? ", and the work was over" : "");
}

static enum outcome unmap_beside(struct text *said, bool *waited) {
    struct place idle;
    struct work work;
    WORKS("mapping pages", place_make(&idle, 1));
    PASS(begin_work(said, &work, work_for));
    uint64_t begin_ns = clock_ns();
    CALL(cuMemUnmap, idle.at, PAGE_BYTES);
    *waited = cu.cuEventQuery(work.event) == CUDA_SUCCESS;
    tell_time(said, "unmapping", begin_ns, work.event);
    begin_ns = clock_ns();
    CALL(cuMemRelease, idle.handles[0]);
    tell_time(said, "releasing", begin_ns, work.event);
    PASS(end_work(said, &work));
    CALL(cuMemAddressFree, idle.at, PAGE_BYTES);
    return CHECK_PASSED;
}

/* Once it did not wait: it does not. No host is busy for so long in all of three tries. */
enum outcome check_unmap_beside(struct text *said) {
    enum { TRIES = 3 };
    bool waited = true;
    for (int i = 0; i < TRIES && waited; i++) {
        *said = text_in(said->data, said->capacity);
        PASS(unmap_beside(said, &waited));
    }
    *check_unmap_waits = waited;
    return CHECK_PASSED;
}

enum outcome check_map_beside(struct text *said) {
    struct place fresh;
    struct work work;
    PASS(begin_work(said, &work, work_begin));
    uint64_t begin_ns = clock_ns();
    WORKS("mapping pages", place_make(&fresh, 1));
    tell_time(said, "mapping", begin_ns, work.event);
    WORKS("a kernel", pattern_write(work.other, fresh.at, PAGE_BYTES, 8));
    WORKS("a kernel", pattern_check(work.other, fresh.at, PAGE_BYTES, 8));
    CALL(cuStreamSynchronize, work.other);
    PASS(end_work(said, &work));
    WORKS("giving pages back", place_end(&fresh));
    return CHECK_PASSED;
}

/* --- captures --- */

enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, INFO, STEPS };

static const char *const step_names[STEPS] = {
    "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemGetInfo",
};

struct scene {
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    enum step step;
    CUresult result;
};

static CUresult perform_step(struct scene *scene, enum step step) {
    CUmemAllocationProp properties = place_properties();
    CUmemAccessDesc access = place_access();
    size_t free_bytes, total_bytes;
    switch (step) {
    case CREATE:
        return cu.cuMemCreate(&scene->handle, PAGE_BYTES, &properties, 0);
    case MAP:
        return cu.cuMemMap(scene->at, PAGE_BYTES, 0, scene->handle, 0);
    case ACCESS:
        return cu.cuMemSetAccess(scene->at, PAGE_BYTES, &access, 1);
    case UNMAP:
        return cu.cuMemUnmap(scene->at, PAGE_BYTES);
    case RELEASE:
        return cu.cuMemRelease(scene->handle);
    default:
        return cu.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    }
}

/* In mode relaxed, as the engine calls. */
static void *perform_relaxed(void *argument) {
    struct scene *scene = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver_bind();
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    scene->result = perform_step(scene, scene->step);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    return NULL;
}

/* One step of the page's life, while the stream is captured in the strictest mode. */
static enum outcome in_capture(struct text *said, struct scene *scene, CUstream stream,
                               bool other_thread) {
    CUgraph graph = NULL;
    pthread_t thread;
    CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (!other_thread)
        perform_relaxed(scene);
    else if (pthread_create(&thread, NULL, perform_relaxed, scene) == 0)
        pthread_join(thread, NULL);
    CUresult ended = cu.cuStreamEndCapture(stream, &graph);
    if (graph)
        cu.cuGraphDestroy(graph);
    EXPECT(ended == CUDA_SUCCESS && scene->result == CUDA_SUCCESS, "%s%s: %s (%s)",
           step_names[scene->step], other_thread ? " from another thread" : "",
           ended != CUDA_SUCCESS ? "the capture ended" : "refused",
           driver_error_name(scene->result));
    return CHECK_PASSED;
}

enum outcome check_relaxed(struct text *said) {
    struct scene scene = {.at = 0};
    CUstream stream;
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemAddressReserve, &scene.at, PAGE_BYTES, 0, 0, 0);
    for (int other_thread = 0; other_thread < 2; other_thread++)
        for (scene.step = CREATE; scene.step < STEPS; scene.step++)
            PASS(in_capture(said, &scene, stream, other_thread));
    CALL(cuMemAddressFree, scene.at, PAGE_BYTES);
    CALL(cuStreamDestroy_v2, stream);
    return CHECK_PASSED;
}
