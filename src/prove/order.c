/* order.c: when work is over, what page calls do beside it, and what a capture bears. */
#include "prove/order.h"

#include "prove/pattern.h"

#include <pthread.h>

enum { WORK_MS = 200 };

static void wait_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
}

/* Long work that writes a page at its end, and an event behind it. */
struct work {
    struct place place;
    CUstream stream, other;
    CUevent event;
};

static enum outcome begin_work(struct text *said, struct work *work,
                               CUresult (*hold)(CUstream, unsigned)) {
    EXPECT(place_make(&work->place, 4) == CUDA_SUCCESS, "pages could not be mapped");
    CALL(cuStreamCreate, &work->stream, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamCreate, &work->other, CU_STREAM_NON_BLOCKING);
    CALL(cuEventCreate, &work->event, CU_EVENT_DISABLE_TIMING);
    EXPECT((!hold || hold(work->stream, WORK_MS) == CUDA_SUCCESS) &&
               pattern_write(work->stream, work->place.at, 4 * PAGE_BYTES, 31) == CUDA_SUCCESS,
           "no kernel could run");
    CALL(cuEventRecord, work->event, work->stream);
    return CHECK_PASSED;
}

/* The event is asked until it says that all is over: then another stream must see what was written.
 */
static enum outcome await_work(struct text *said, struct work *work) {
    CUresult answer;
    while ((answer = cu.cuEventQuery(work->event)) == CUDA_ERROR_NOT_READY)
        wait_a_little();
    if (answer != CUDA_SUCCESS)
        return check_refused(said, "cuEventQuery", answer);
    EXPECT(pattern_check(work->other, work->place.at, 4 * PAGE_BYTES, 31) == CUDA_SUCCESS,
           "no kernel could run");
    if (check_patterns(said) != CHECK_PASSED)
        return CHECK_FAILED;
    CALL(cuEventDestroy_v2, work->event);
    CALL(cuStreamDestroy_v2, work->other);
    EXPECT(place_end(&work->place) == CUDA_SUCCESS, "pages could not be given back");
    return CHECK_PASSED;
}

enum outcome check_event(struct text *said) {
    struct work work;
    if (begin_work(said, &work, work_begin) != CHECK_PASSED)
        return CHECK_FAILED;
    EXPECT(cu.cuEventQuery(work.event) == CUDA_ERROR_NOT_READY,
           "an event was over before the work in front of it");
    EXPECT(cu.cuStreamQuery(work.stream) == CUDA_ERROR_NOT_READY,
           "a stream was empty before its work was over");
    EXPECT(work_end(work.stream) == CUDA_SUCCESS, "work could not be ended");
    if (await_work(said, &work) != CHECK_PASSED)
        return CHECK_FAILED;
    CALL(cuStreamDestroy_v2, work.stream);
    return CHECK_PASSED;
}

/* Drivers before 12.5 have none: the engine asks each stream there. */
enum outcome check_context_event(struct text *said) {
    struct work work;
    if (!cu.cuCtxRecordEvent) {
        text_add(said, "the driver has none: each stream is asked");
        return CHECK_SKIPPED;
    }
    if (begin_work(said, &work, work_begin) != CHECK_PASSED)
        return CHECK_FAILED;
    CUresult recorded = cu.cuCtxRecordEvent(driver_context(), work.event);
    if (recorded == CUDA_SUCCESS)
        EXPECT(cu.cuEventQuery(work.event) == CUDA_ERROR_NOT_READY,
               "the context's event was over before the work of a stream");
    EXPECT(work_end(work.stream) == CUDA_SUCCESS, "work could not be ended");
    if (await_work(said, &work) != CHECK_PASSED)
        return CHECK_FAILED;
    CALL(cuStreamDestroy_v2, work.stream);
    if (recorded != CUDA_SUCCESS)
        text_format(said, "refused (%s): each stream is asked", driver_error_name(recorded));
    return recorded == CUDA_SUCCESS ? CHECK_PASSED : CHECK_SKIPPED;
}

/* The simulated device cannot let go of a stream that is gone: it holds none here. */
enum outcome check_stream_gone(struct text *said) {
    struct work work;
    if (begin_work(said, &work, driver_is_simulated() ? NULL : work_begin) != CHECK_PASSED)
        return CHECK_FAILED;
    CALL(cuStreamDestroy_v2, work.stream);
    return await_work(said, &work);
}

/* --- page calls beside running work --- */

static void tell_time(struct text *said, const char *what, uint64_t begin_ns, CUevent event) {
    uint64_t took_ns = clock_ns() - begin_ns;
    text_format(said, "%s took ", what);
    text_add_duration(said, took_ns);
    text_add(said, cu.cuEventQuery(event) == CUDA_SUCCESS ? ", and the work was over; " : "; ");
}

enum outcome check_unmap_beside(struct text *said) {
    struct place idle;
    struct work work;
    EXPECT(place_make(&idle, 1) == CUDA_SUCCESS, "a page could not be mapped");
    if (begin_work(said, &work, work_for) != CHECK_PASSED)
        return CHECK_FAILED;
    uint64_t begin_ns = clock_ns();
    CALL(cuMemUnmap, idle.at, PAGE_BYTES);
    tell_time(said, "unmapping", begin_ns, work.event);
    begin_ns = clock_ns();
    CALL(cuMemRelease, idle.handles[0]);
    tell_time(said, "releasing", begin_ns, work.event);
    EXPECT(work_end(work.stream) == CUDA_SUCCESS, "work could not be ended");
    if (await_work(said, &work) != CHECK_PASSED)
        return CHECK_FAILED;
    CALL(cuMemAddressFree, idle.at, PAGE_BYTES);
    CALL(cuStreamDestroy_v2, work.stream);
    return CHECK_PASSED;
}

enum outcome check_map_beside(struct text *said) {
    struct place fresh;
    struct work work;
    if (begin_work(said, &work, work_begin) != CHECK_PASSED)
        return CHECK_FAILED;
    uint64_t begin_ns = clock_ns();
    EXPECT(place_make(&fresh, 1) == CUDA_SUCCESS, "a page could not be mapped");
    tell_time(said, "mapping", begin_ns, work.event);
    EXPECT(pattern_write(work.other, fresh.at, PAGE_BYTES, 8) == CUDA_SUCCESS &&
               pattern_check(work.other, fresh.at, PAGE_BYTES, 8) == CUDA_SUCCESS,
           "no kernel could run");
    CALL(cuStreamSynchronize, work.other);
    EXPECT(work_end(work.stream) == CUDA_SUCCESS, "work could not be ended");
    if (await_work(said, &work) != CHECK_PASSED)
        return CHECK_FAILED;
    EXPECT(place_end(&fresh) == CUDA_SUCCESS, "a page could not be given back");
    CALL(cuStreamDestroy_v2, work.stream);
    return CHECK_PASSED;
}

/* --- captures --- */

enum step { CREATE, MAP, ACCESS, UNMAP, RELEASE, INFO, EVENT, STREAM, STEPS };

static const char step_letters[] = "cmaurfes";

struct scene {
    CUstream captured, other;
    CUevent event;
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    bool made, mapped;
    enum step step;
    bool relax;
    CUresult result;
};

static CUresult open_scene(struct scene *scene) {
    CUresult result = cu.cuStreamCreate(&scene->captured, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result = cu.cuStreamCreate(&scene->other, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result = cu.cuEventCreate(&scene->event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = cu.cuEventRecord(scene->event, scene->other);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemAddressReserve(&scene->at, PAGE_BYTES, 0, 0, 0);
    return result;
}

static CUresult perform(struct scene *scene, enum step step) {
    CUmemAllocationProp properties = place_properties();
    CUmemAccessDesc access = place_access();
    size_t free_bytes, total_bytes;
    CUresult result = CUDA_SUCCESS;
    switch (step) {
    case CREATE:
        result = cu.cuMemCreate(&scene->handle, PAGE_BYTES, &properties, 0);
        scene->made = result == CUDA_SUCCESS;
        return result;
    case MAP:
        result = cu.cuMemMap(scene->at, PAGE_BYTES, 0, scene->handle, 0);
        scene->mapped = result == CUDA_SUCCESS;
        return result;
    case ACCESS:
        return cu.cuMemSetAccess(scene->at, PAGE_BYTES, &access, 1);
    case UNMAP:
        result = cu.cuMemUnmap(scene->at, PAGE_BYTES);
        scene->mapped = result != CUDA_SUCCESS;
        return result;
    case RELEASE:
        result = cu.cuMemRelease(scene->handle);
        scene->made = result != CUDA_SUCCESS;
        return result;
    case INFO:
        return cu.cuMemGetInfo_v2(&free_bytes, &total_bytes);
    case EVENT:
        return cu.cuEventQuery(scene->event);
    default:
        return cu.cuStreamQuery(scene->other);
    }
}

/* What must be there before the step; and what is left of it goes. */
static void prepare(struct scene *scene) {
    if (scene->step >= MAP && scene->step <= RELEASE && !scene->made)
        perform(scene, CREATE);
    if ((scene->step == ACCESS || scene->step == UNMAP) && !scene->mapped)
        perform(scene, MAP);
}

static void clean(struct scene *scene) {
    if (scene->mapped)
        perform(scene, UNMAP);
    if (scene->made)
        perform(scene, RELEASE);
}

static void *perform_here(void *argument) {
    struct scene *scene = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver_bind();
    if (scene->relax)
        cu.cuThreadExchangeStreamCaptureMode(&mode);
    scene->result = perform(scene, scene->step);
    if (scene->relax)
        cu.cuThreadExchangeStreamCaptureMode(&mode);
    return NULL;
}

/* '.': the call works and the capture goes on; '-': it is refused; '!': it ends the capture. */
static char in_capture(struct scene *scene, CUstreamCaptureMode mode, bool other_thread) {
    CUgraph graph = NULL;
    pthread_t thread;
    prepare(scene);
    if (cu.cuStreamBeginCapture_v2(scene->captured, mode) != CUDA_SUCCESS)
        return '?';
    if (!other_thread)
        perform_here(scene);
    else if (pthread_create(&thread, NULL, perform_here, scene) == 0)
        pthread_join(thread, NULL);
    CUresult ended = cu.cuStreamEndCapture(scene->captured, &graph);
    if (graph)
        cu.cuGraphDestroy(graph);
    clean(scene);
    return ended != CUDA_SUCCESS ? '!' : scene->result != CUDA_SUCCESS ? '-' : '.';
}

static void tell_mode(struct text *said, struct scene *scene, CUstreamCaptureMode mode,
                      bool other_thread) {
    for (int step = CREATE; step < STEPS; step++) {
        scene->step = (enum step)step;
        char told = in_capture(scene, mode, other_thread);
        text_format(said, "%c%c", step_letters[step], told);
    }
}

/* Create, map, access, unmap, release, free memory, event query, stream query. */
enum outcome check_captures(struct text *said) {
    static const char *const names[] = {"global", "thread-local", "relaxed"};
    struct scene scene = {.relax = false};
    EXPECT(open_scene(&scene) == CUDA_SUCCESS, "no stream could be made");
    for (int mode = 0; mode < 3; mode++)
        for (int other = 0; other < 2; other++) {
            text_format(said, "%s%s ", mode + other ? "; " : "", names[mode]);
            text_add(said, other ? "(other thread) " : "");
            tell_mode(said, &scene, (CUstreamCaptureMode)mode, other);
        }
    return CHECK_PASSED;
}

enum outcome check_relaxed(struct text *said) {
    struct scene scene = {.relax = true};
    EXPECT(open_scene(&scene) == CUDA_SUCCESS, "no stream could be made");
    for (int step = CREATE; step <= INFO; step++)
        for (int other = 0; other < 2; other++) {
            scene.step = (enum step)step;
            char told = in_capture(&scene, CU_STREAM_CAPTURE_MODE_GLOBAL, other);
            EXPECT(told == '.', "step %c%s: %s (%s)", step_letters[step],
                   other ? " from another thread" : "",
                   told == '!' ? "the capture ended" : "refused", driver_error_name(scene.result));
        }
    return CHECK_PASSED;
}
