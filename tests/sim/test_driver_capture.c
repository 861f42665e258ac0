/* Stream capture and graphs on the simulated device, and the errors that capture documents. */
#include "test_driver.h"

#include <pthread.h>

static CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status;
    ok(cuStreamIsCapturing(stream, &status));
    return status;
}

static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec;
    ok(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static CUstream capturing(CUstreamCaptureMode mode) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cuStreamBeginCapture(stream, mode));
    return stream;
}

/* A graph that allocates a MiB and does not free it; the stream that was captured. */
static CUstream captured_allocation(CUgraph *graph, CUdeviceptr *pointer) {
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(cuMemAllocAsync(pointer, MIB, stream));
    ok(cuStreamEndCapture(stream, graph));
    return stream;
}

static void end_invalid(CUstream stream) {
    CUgraph graph = (CUgraph)1;
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

static void captured_work_runs_only_when_launched(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUgraph graph;
    ok(cuMemAlloc(&pointer, 4096));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(simgpu_touch(stream, pointer, 16, 3));
    ok(cuMemsetD8Async(pointer + 16, 4, 16, stream));
    ok(cuStreamEndCapture(stream, &graph));
    assert_int_equal(byte_at(pointer), 0);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        ok(cuMemsetD8(pointer, 0, 32));
        ok(cuCtxSynchronize());
        ok(cuGraphLaunch(exec, stream));
        assert_int_equal(byte_at(pointer), 0); /* Late, as all work. */
        ok(cuStreamSynchronize(stream));
        assert_int_equal(byte_at(pointer), 3);
        assert_int_equal(byte_at(pointer + 16), 4);
    }
    ok(cuGraphExecDestroy(exec));
    fails(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
    expect_reports(1);
}

static void streams_join_through_events(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUevent fork_event, join_event;
    CUgraph graph;
    size_t nodes = 0;
    ok(cuMemAlloc(&pointer, 4096));
    ok(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    CUstream side = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ok(simgpu_touch(stream, pointer, 16, 1));
    ok(cuEventRecord(fork_event, stream));
    ok(cuStreamWaitEvent(side, fork_event, 0));
    assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(simgpu_expect(side, pointer, 16, 1));
    ok(cuEventRecord(join_event, side));
    ok(cuStreamWaitEvent(stream, join_event, 0));
    ok(simgpu_touch(stream, pointer, 16, 2));
    fails(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    ok(cuStreamEndCapture(stream, &graph));
    assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
    ok(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 3);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphLaunch(exec, side));
    ok(cuStreamSynchronize(side));
    assert_int_equal(byte_at(pointer), 2);
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

static void unjoined_work_is_an_error(void **state) {
    (void)state;
    CUevent event;
    CUgraph graph;
    CUfunction kernel = any_kernel();
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUstream side = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(cuEventRecord(event, stream));
    ok(cuStreamWaitEvent(side, event, 0));
    launch(kernel, side);
    fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
}

static void allocation_is_unsafe_in_global_mode(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fails(cuMemAlloc(&pointer, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_invalid(stream);
    ok(cuMemAlloc(&pointer, 4096));
}

static void a_relaxed_thread_may_allocate(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUgraph graph;
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(cuMemAlloc(&pointer, 4096));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuMemFree(pointer));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));
}

struct other {
    CUcontext context;
    CUresult result;
    CUevent event;
};

static void *allocate_elsewhere(void *data) {
    struct other *other = data;
    CUdeviceptr pointer;
    cuCtxSetCurrent(other->context);
    other->result = cuMemAlloc(&pointer, 4096);
    return NULL;
}

static CUresult in_another_thread(void *(*function)(void *), CUevent event) {
    struct other other = {.event = event};
    pthread_t thread;
    ok(cuCtxGetCurrent(&other.context));
    assert_int_equal(pthread_create(&thread, NULL, function, &other), 0);
    pthread_join(thread, NULL);
    return other.result;
}

static void modes_reach_other_threads(void **state) {
    (void)state;
    CUgraph graph;
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ok(in_another_thread(allocate_elsewhere, NULL));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));
    stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fails(in_another_thread(allocate_elsewhere, NULL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_invalid(stream);
}

static void *query_elsewhere(void *data) {
    struct other *other = data;
    cuCtxSetCurrent(other->context);
    other->result = cuEventQuery(other->event);
    return NULL;
}

/* A watchdog thread that polls events breaks a global capture, as users have found. */
static void polling_breaks_a_global_capture(void **state) {
    (void)state;
    CUevent event;
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fails(in_another_thread(query_elsewhere, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_invalid(stream);
}

static void waiting_breaks_a_capture(void **state) {
    (void)state;
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    fails(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fails(cuMemsetD8Async(0x1000, 0, 0, NULL), CUDA_SUCCESS);
    end_invalid(stream);
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    fails(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_invalid(stream);
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    fails(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_invalid(stream);
}

/* Also for a thread that has exchanged its mode. */
static void a_context_event_breaks_any_capture(void **state) {
    (void)state;
    CUcontext context;
    CUevent event;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ok(cuCtxGetCurrent(&context));
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    fails(cuCtxRecordEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    end_invalid(stream);
    ok(cuCtxRecordEvent(context, event));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
}

static void captured_events_have_no_answer(void **state) {
    (void)state;
    CUevent event;
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuEventRecord(event, stream));
    fails(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    end_invalid(stream);
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuEventRecord(event, stream));
    fails(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
    end_invalid(stream);
    fails(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_CAPTURED_EVENT);
    ok(cuEventRecord(event, stream)); /* Recorded again, it is an ordinary one. */
    ok(cuEventSynchronize(event));
}

static void the_legacy_stream_conflicts(void **state) {
    (void)state;
    CUstream stream = new_stream(CU_STREAM_DEFAULT);
    CUfunction kernel = any_kernel();
    CUstreamCaptureStatus status;
    fails(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fails(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    fails(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    fails(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
          CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end_invalid(stream);
}

static void captures_stay_apart(void **state) {
    (void)state;
    CUevent event, outside;
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(outside, NULL));
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstream b = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cuEventRecord(event, a));
    fails(cuStreamWaitEvent(b, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    end_invalid(a);
    end_invalid(b);
    a = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    fails(cuStreamWaitEvent(a, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_invalid(a);
}

static void *end_elsewhere(void *data) {
    struct other *other = data;
    CUgraph graph;
    cuCtxSetCurrent(other->context);
    other->result = cuStreamEndCapture((CUstream)other->event, &graph);
    return NULL;
}

static void capture_ends_in_its_thread(void **state) {
    (void)state;
    CUgraph graph;
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fails(in_another_thread(end_elsewhere, (CUevent)stream),
          CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));
    fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(in_another_thread(end_elsewhere, (CUevent)stream));
}

static cuuint64_t graph_memory(CUgraphMem_attribute attribute) {
    cuuint64_t value;
    ok(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

static void graphs_allocate_memory(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUgraph graph;
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(cuMemAllocAsync(&pointer, 4 * MIB, stream));
    ok(simgpu_touch(stream, pointer, 4 * MIB, 5));
    ok(simgpu_expect(stream, pointer, 4 * MIB, 5));
    ok(cuMemFreeAsync(pointer, stream));
    ok(cuStreamEndCapture(stream, &graph));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4 * MIB);
    assert_true(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= 4 * MIB);
    CUgraphExec exec = instantiate(graph);
    for (int i = 0; i < 3; i++)
        ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_true(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) > 0);
    ok(cuDeviceGraphMemTrim(0));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 4 * MIB);
    cuuint64_t zero = 0;
    ok(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
}

static void memory_that_outlives_a_launch_is_freed_before_the_next(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUgraph graph;
    CUstream stream = captured_allocation(&graph, &pointer);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphLaunch(exec, stream));
    fails(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
    ok(cuMemsetD8Async(pointer, 1, MIB, stream));
    ok(cuMemFreeAsync(pointer, stream));
    fails(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
    ok(cuGraphLaunch(exec, stream));
    ok(cuMemFreeAsync(pointer, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

static void memory_of_a_launch_outlives_its_graph(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUgraph graph;
    CUstream stream = captured_allocation(&graph, &pointer);
    CUgraphExec exec = instantiate(graph);
    ok(cuGraphLaunch(exec, stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuMemsetD8Async(pointer, 6, MIB, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(byte_at(pointer), 6);
    ok(cuMemFreeAsync(pointer, stream));
    fails(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
    ok(cuStreamSynchronize(stream));
    assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
}

static void memory_that_no_launch_has_allocated_cannot_be_freed(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUgraph graph;
    CUstream stream = captured_allocation(&graph, &pointer);
    fails(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
    CUgraphExec exec = instantiate(graph);
    fails(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    expect_reports(1);
    ok(cuGraphLaunch(exec, stream));
    ok(cuMemFreeAsync(pointer, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
}

static void capture_info_names_the_graph(void **state) {
    (void)state;
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph graph = NULL, ended;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges;
    size_t count = 7;
    CUgraphNodeType type;
    CUfunction kernel = any_kernel();
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    launch(kernel, stream);
    ok(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_not_equal(id, 0);
    assert_int_equal(count, 1);
    ok(cuGraphNodeGetType(nodes[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_KERNEL);
    ok(cuStreamEndCapture(stream, &ended));
    assert_ptr_equal(graph, ended);
    ok(cuGraphDestroy(graph));
}

static void a_stream_destroyed_while_capturing(void **state) {
    (void)state;
    CUdeviceptr pointer;
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    launch(any_kernel(), stream);
    ok(cuStreamDestroy(stream));
    ok(cuMemAlloc(&pointer, 16)); /* No capture is left to forbid it. */
}

int main(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    const struct CMUnitTest tests[] = {
        device_test(captured_work_runs_only_when_launched),
        device_test(streams_join_through_events),
        device_test(unjoined_work_is_an_error),
        device_test(allocation_is_unsafe_in_global_mode),
        device_test(a_relaxed_thread_may_allocate),
        device_test(modes_reach_other_threads),
        device_test(polling_breaks_a_global_capture),
        device_test(waiting_breaks_a_capture),
        device_test(a_context_event_breaks_any_capture),
        device_test(captured_events_have_no_answer),
        device_test(the_legacy_stream_conflicts),
        device_test(captures_stay_apart),
        device_test(capture_ends_in_its_thread),
        device_test(graphs_allocate_memory),
        device_test(memory_that_outlives_a_launch_is_freed_before_the_next),
        device_test(memory_of_a_launch_outlives_its_graph),
        device_test(memory_that_no_launch_has_allocated_cannot_be_freed),
        device_test(capture_info_names_the_graph),
        device_test(a_stream_destroyed_while_capturing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
