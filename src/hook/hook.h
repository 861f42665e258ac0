/* hook.h: what all wrappers share. A wrapper calls the real function and tells the record about it;
 * it decides nothing.
 *
 *     outside --call--> OUTERMOST: counted, recorded --call inside the call--> INNER: counted only
 *
 * The invariant: memory is recorded once, by the outermost hook of its thread, for a runtime call
 * ends in a driver call that is hooked too; an allocation after it succeeded, a release before the
 * call, and again if that fails. */
#pragma once

#include "card/generation.h"
#include "cuda/objects.h"
#include "cuda/real.h"
#include "process/start.h"
#include "track/thread.h"

#define EXPORT __attribute__((visibility("default")))

/* The prototypes of all wrappers, so that one that differs from its line in the table does not
 * compile. */
#define HOOK(library, result, symbol, parameters, arguments) EXPORT result symbol parameters;
#define PASS                                                 HOOK
#define NEED(library, result, symbol, parameters, arguments)
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED

/* A wrapper answers this when there is no real function: the API's own "not found". */
#define MISSING_CUDART cudaErrorSharedObjectSymbolNotFound
#define MISSING_CUDA   CUDA_ERROR_NOT_FOUND

/* True: the code that called the current wrapper belongs to PyTorch's caching allocator. */
#define FROM_ALLOCATOR() objects_in_allocator(__builtin_return_address(0))

/* In a wrapper of the runtime: the typed real function of the runtime that the caller of the
 * wrapper, or `caller`, is linked with; may be NULL. */
#define RUNTIME_OF(caller, symbol)                                                                 \
    ((real_##symbol##_t)runtimes_choose(ID_##symbol, caller, real_get(ID_##symbol)))
#define RUNTIME(symbol) RUNTIME_OF(__builtin_return_address(0), symbol)

/* By the name of the API. */
#define REAL_CUDART RUNTIME
#define REAL_CUDA   REAL

/* A wrapper whose body is a macro. */
#define WRAP(body, api, symbol, parameters, ...)                                                   \
    RESULT_##api symbol parameters {                                                               \
        body(api, symbol, ##__VA_ARGS__);                                                          \
    }
#define RESULT_CUDART cudaError_t
#define RESULT_CUDA   CUresult

/* The body of a wrapper that does something more after a success, of which `result` may be told. */
#define CALL_THEN(api, symbol, then, ...)                                                          \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    hook_enter(ID_##symbol);                                                                       \
    RESULT_##api result = real ? real(__VA_ARGS__) : MISSING_##api;                                \
    if ((int)result == CUDA_SUCCESS) {                                                             \
        then;                                                                                      \
    }                                                                                              \
    hook_leave();                                                                                  \
    return result

/* The hooks that this thread is inside of. */
struct hook_state {
    unsigned depth;
    unsigned vmm_depth; /* of them of virtual memory management */
    unsigned moving;    /* the depth of the outermost that may take or give memory; 0: none */
    bool context_seen;  /* a context was made inside the current hook */
};
extern THREAD_LOCAL struct hook_state hook_state;

/* Counts the call. Whether this is the outermost hook of the thread. Every hook_enter is followed
 * by a hook_leave. */
static inline bool hook_enter(enum real_id id) {
    call_made(id);
    return hook_state.depth++ == 0;
}

/* The same in a wrapper of a function that may take or give memory. */
static inline bool hook_enter_memory(enum real_id id) {
    bool outermost = hook_enter(id);
    if (!hook_state.moving) {
        hook_state.moving = hook_state.depth;
        moves_begin();
    }
    return outermost;
}

/* Recording begins here if a context was made inside, so that a process that only has a context is
 * seen too. */
static inline void hook_leave(void) {
    if (hook_state.moving == hook_state.depth) {
        hook_state.moving = 0;
        moves_end();
    }
    if (--hook_state.depth == 0 && UNLIKELY(hook_state.context_seen)) {
        hook_state.context_seen = false;
        start_recording();
    }
}

/* The same in a wrapper of virtual memory management. No runtime call ends in one of these: inside
 * another hook it is made by an interposer, such as comfy-aimdo, which makes room for what is being
 * asked for, and counts. */
static inline bool hook_enter_vmm(enum real_id id) {
    hook_enter_memory(id);
    return hook_state.vmm_depth++ == 0;
}

static inline void hook_leave_vmm(void) {
    hook_state.vmm_depth--;
    hook_leave();
}

/* A stream as the record knows it. In the variants _ptsz no stream means that of the thread. */
#define STREAM(s)      ((uint64_t)(uintptr_t)(s))
#define STREAM_PTSZ(s) ((s) ? STREAM(s) : STREAM_PER_THREAD)
