/* calls.h: the bodies that most wrappers of memory functions share, for both APIs: an allocation
 * and a release, and a few others that both APIs have. Success and "no memory" have the same
 * numbers in the runtime and in the driver.
 *
 * An allocation is recorded after it succeeded. A release is taken out of the record before the
 * call, because the driver may give the address out again at once, and put back if it failed. */
#pragma once

#include "card/reading.h"
#include "govern/last_resort.h"
#include "hook/hook.h"
#include "serve/async.h"
#include "serve/capacity.h"
#include "serve/device_vm.h"
#include "serve/serve.h"
#include "track/alloc.h"
#include "track/callers.h"
#include "track/free_memory.h"
#include "track/oom.h"
#include "track/process_state.h"
#include "track/stream.h"

_Static_assert((int)cudaSuccess == (int)CUDA_SUCCESS &&
                   (int)cudaErrorMemoryAllocation == (int)CUDA_ERROR_OUT_OF_MEMORY,
               "both APIs number success and out of memory alike");

enum { CALL_SUCCESS = CUDA_SUCCESS, CALL_NO_MEMORY = CUDA_ERROR_OUT_OF_MEMORY };

typedef cudaError_t (*hook_forget_t)(void);

/* Tells the record how an allocation ended. allocator: PyTorch's caching allocator asked. */
void hook_note(enum real_id id, enum alloc_class class, int result, uint64_t address,
               uint64_t bytes, bool allocator);

/* In a wrapper, with whose code called it. */
#define HOOK_NOTE(...) (library_calls(__builtin_return_address(0)), hook_note(__VA_ARGS__))

/* True: something was given for a call that was refused, so that asking again may help
 * (govern/last_resort.h). *request: all zero at first. The runtime remembers a refusal until its
 * latest error is asked for: `forget` takes that away. */
bool hook_last_resort(struct request *request, enum alloc_class class, uint64_t bytes,
                      bool allocator, hook_forget_t forget);

#define HOOK_LAST_RESORT(...)                                                                      \
    (library_calls(__builtin_return_address(0)), hook_last_resort(__VA_ARGS__))

/* True: a stream-ordered allocation was answered without the driver; then with what. */
bool hook_serve(const struct async_request *call, void **out, int *answer);

/* A capture is about to begin: whether it was not known before, and is to be ended should the call
 * fail. A stream is about to be destroyed. */
bool hook_capture_begin(uint64_t stream);
void hook_stream_gone(uint64_t stream);

/* The driver remembers nothing. */
cudaError_t hook_nothing_to_forget(void);

#define FORGET_CUDART    RUNTIME(cudaGetLastError)
#define FORGET_CUDA      hook_nothing_to_forget
#define ALLOCATOR_CUDART FROM_ALLOCATOR()
#define ALLOCATOR_CUDA   false

/* True: VRAMGC_HEADROOM and VRAMGC_CAP leave room. The runtime's calls end in the driver's. */
bool hook_may_take(enum alloc_class class, uint64_t bytes);
#define GATE_CUDART                   NULL
#define GATE_CUDA                     gate_enter()
#define MAY_TAKE_CUDART(class, bytes) true
#define MAY_TAKE_CUDA(class, bytes)   (LIKELY(!limit_is_on()) || hook_may_take(class, bytes))

/* The same for what is told. The runtime's answer is the driver's, within the limits already: how
 * much is lacking below 0 only another reading says. */
#define LIMIT_CUDART(told) (void)(limit_is_on() && meminfo_read(told))
#define LIMIT_CUDA(told)   meminfo_limit(told)

/* asked: what the caller asked for; got: what it costs. What the caller points to (p) is looked at
 * only on success: on an error it may be anything. */
#define ALLOCATE_AS(api, symbol, class, asked, got, ...)                                           \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter_memory(ID_##symbol);                                               \
    struct request request = {0};                                                                  \
    RESULT_##api result = MISSING_##api;                                                           \
    do {                                                                                           \
        atomic_uint *taking = GATE_##api;                                                          \
        if (real)                                                                                  \
            result =                                                                               \
                MAY_TAKE_##api(class, asked) ? real(__VA_ARGS__) : (RESULT_##api)CALL_NO_MEMORY;   \
        gate_leave(taking);                                                                        \
    } while (outermost && (int)result == CALL_NO_MEMORY &&                                         \
             HOOK_LAST_RESORT(&request, class, asked, ALLOCATOR_##api, FORGET_##api));             \
    if (outermost)                                                                                 \
        HOOK_NOTE(ID_##symbol, class, (int)result, (int)result == CALL_SUCCESS ? (uint64_t)*p : 0, \
                  (int)result == CALL_SUCCESS ? (got) : (asked), ALLOCATOR_##api);                 \
    hook_leave();                                                                                  \
    return result

#define ALLOCATE(api, symbol, class, bytes, ...)                                                   \
    ALLOCATE_AS(api, symbol, class, bytes, bytes, __VA_ARGS__)

/* done: a call that may release it without the driver. */
#define RELEASE_UNLESS(api, symbol, done, ...)                                                     \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter_memory(ID_##symbol);                                               \
    struct alloc_freed taken = {0};                                                                \
    if (outermost)                                                                                 \
        alloc_free_begin((uint64_t)p, &taken);                                                     \
    RESULT_##api result = MISSING_##api;                                                           \
    if (done)                                                                                      \
        result = (RESULT_##api)CALL_SUCCESS;                                                       \
    else if (real)                                                                                 \
        result = real(__VA_ARGS__);                                                                \
    if (outermost && (int)result == CALL_SUCCESS)                                                  \
        alloc_free_commit(&taken);                                                                 \
    else if (outermost)                                                                            \
        alloc_free_abort(&taken);                                                                  \
    hook_leave();                                                                                  \
    return result

#define RELEASE(api, symbol, ...) RELEASE_UNLESS(api, symbol, false, __VA_ARGS__)

/* A pool that the call names may be one of host or of managed memory: what came from it tells. */
enum alloc_class hook_class_of_named(uint64_t address);

/* The same two for memory in the order of a stream (mode compact may serve it). named: the pool
 * that the call names; NULL: the device's current one. During a capture an allocation becomes a
 * node of the graph. */
#define ALLOCATE_ORDERED(api, symbol, stream, named, ...)                                          \
    const struct async_request call = {ID_##symbol, n, stream, named, ALLOCATOR_##api};            \
    int answer;                                                                                    \
    if (hook_serve(&call, (void **)p, &answer))                                                    \
        return (RESULT_##api)answer;                                                               \
    ALLOCATE(api, symbol,                                                                          \
             capture_includes(stream)               ? CLASS_GRAPH                                  \
             : named && (int)result == CALL_SUCCESS ? hook_class_of_named((uint64_t)*p)            \
                                                    : CLASS_POOL,                                  \
             n, __VA_ARGS__)

#define RELEASE_ORDERED(api, symbol, stream, ...)                                                  \
    RELEASE_UNLESS(api, symbol, async_free(ID_##symbol, &taken, stream), __VA_ARGS__)

#define REGISTER(api, symbol)                                                                      \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    RESULT_##api result = real ? real(p, n, f) : MISSING_##api;                                    \
    if (outermost && (int)result == CALL_SUCCESS && start_recording())                             \
        alloc_succeeded(CLASS_REGISTERED, (uint64_t)p, n, false);                                  \
    hook_leave();                                                                                  \
    return result

/* s: where the new stream is found. */
#define MAKE_STREAM(api, symbol, ...)                                                              \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    RESULT_##api result = real ? real(__VA_ARGS__) : MISSING_##api;                                \
    if (outermost && (int)result == CALL_SUCCESS)                                                  \
        stream_made(STREAM(*s));                                                                   \
    hook_leave();                                                                                  \
    return result

/* The stream must not be asked any more, so its end is noted before. */
#define DESTROY_STREAM(api, symbol)                                                                \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    if (outermost)                                                                                 \
        hook_stream_gone(STREAM(s));                                                               \
    RESULT_##api result = real ? real(s) : MISSING_##api;                                          \
    if (outermost && (int)result == CALL_SUCCESS)                                                  \
        capture_end(STREAM(s));                                                                    \
    hook_leave();                                                                                  \
    return result

/* The capture counts as begun before it is: PyTorch too sets its mark first. */
#define BEGIN_CAPTURE(api, symbol, stream, ...)                                                    \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    bool added = outermost && hook_capture_begin(stream);                                          \
    RESULT_##api result = real ? real(__VA_ARGS__) : MISSING_##api;                                \
    if (added && (int)result != CALL_SUCCESS)                                                      \
        capture_end(stream);                                                                       \
    hook_leave();                                                                                  \
    return result

#define END_CAPTURE(api, symbol, stream, ...)                                                      \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    RESULT_##api result = real ? real(__VA_ARGS__) : MISSING_##api;                                \
    if (outermost && (int)result == CALL_SUCCESS)                                                  \
        capture_end(stream);                                                                       \
    else if (outermost)                                                                            \
        capture_end_failed(stream);                                                                \
    hook_leave();                                                                                  \
    return result

/* size: a card's, which the limits may make smaller; once, for the runtime's answer is the
 * driver's. */
#define TELL_SIZE(api, symbol, size, ...)                                                          \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    RESULT_##api result = real ? real(__VA_ARGS__) : MISSING_##api;                                \
    if (outermost && (int)result == CALL_SUCCESS && limit_is_on())                                 \
        size = limit_total(size);                                                                  \
    hook_leave();                                                                                  \
    return result

/* The inner of two is part of the outer. */
#define MEMORY_INFO(api, symbol)                                                                   \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    bool outermost = hook_enter(ID_##symbol);                                                      \
    if (outermost && parked_info_begins(free, total)) {                                            \
        hook_leave();                                                                              \
        return (RESULT_##api)CALL_SUCCESS;                                                         \
    }                                                                                              \
    if (outermost && ALLOCATOR_##api)                                                              \
        capacity_before_refusal();                                                                 \
    struct capacity_reading reading = {0};                                                         \
    if (outermost)                                                                                 \
        reading = capacity_reading_begins();                                                       \
    uint64_t before = moves_now(), start_ns = clock_ns();                                          \
    RESULT_##api result = real ? real(free, total) : MISSING_##api;                                \
    struct meminfo told = {0};                                                                     \
    if ((int)result == CALL_SUCCESS && free && total) {                                            \
        told = (struct meminfo){*free, *total, meminfo_age(start_ns), (int64_t)*free, 0, 0};       \
        LIMIT_##api(&told);                                                                        \
        *free = told.free_bytes;                                                                   \
        *total = told.total_bytes;                                                                 \
    }                                                                                              \
    if (outermost && told.total_bytes) {                                                           \
        oom_card_read();                                                                           \
        device_memory_info(&told, before);                                                         \
        *free = capacity_free_as_seen(&reading, &told);                                            \
    }                                                                                              \
    if (outermost) {                                                                               \
        capacity_reading_ends(&reading);                                                           \
        parked_info_ends(told.total_bytes ? *free : 0);                                            \
    }                                                                                              \
    hook_leave();                                                                                  \
    return result
