/* passthrough.c: every wrapper hands every argument through, byte for byte, and every error
 * back, whatever the arguments are: sentinels that must not be looked at, and nothing at all.
 * Linked with the echoing runtime and driver of echo.c. */
#include "check.h"
#include "echo.h"

#include "cuda/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { ARGUMENTS = 16 };

/* Both APIs: an invalid value, no memory, an unknown error; the driver's "not found". */
static const int results[] = {1, 2, 30, 500, 999};

static struct echo *runtime, *driver;

/* The same call as the wrapper sees it, with what it got noted. */
static struct echo wanted;

/* Each gets its arguments as the wrapper would, notes them, and calls the wrapper. */
#define CALLER(library, kind, symbol, parameters, arguments)                                       \
    __attribute__((weak)) kind symbol parameters;                                                  \
    static kind call_##symbol parameters {                                                         \
        struct echo *noted = &wanted;                                                              \
        noted->name = #symbol;                                                                     \
        noted->length = 0;                                                                         \
        ECHO_ARGUMENTS arguments;                                                                  \
        return symbol arguments;                                                                   \
    }
#define SKIP(library, kind, symbol, parameters, arguments)
#define HOOK(library, kind, symbol, parameters, arguments)                                         \
    HOOK_##library(library, kind, symbol, parameters, arguments)
#define PASS        HOOK
#define NEED        SKIP
#define ASK         SKIP /* entries.c */
#define HOOK_CUDART CALLER
#define HOOK_CUDA   CALLER
#define HOOK_C10    SKIP
#define HOOK_TORCH  SKIP
#define HOOK_AIMDO  SKIP
#include "hooks.def"
#undef HOOK_CUDART
#undef HOOK_CUDA
#define ASK SKIP

struct caller {
    const char *symbol;
    void (*call)(void);
    bool runtime;
};

#define ROW_CUDART(library, kind, symbol, parameters, arguments)                                   \
    {#symbol, (void (*)(void))call_##symbol, true},
#define ROW_CUDA(library, kind, symbol, parameters, arguments)                                     \
    {#symbol, (void (*)(void))call_##symbol, false},
#define HOOK_CUDART ROW_CUDART
#define HOOK_CUDA   ROW_CUDA
static const struct caller callers[] = {
#include "hooks.def"
};

/* Calls any function with machine words for arguments: those it does not have are ignored, and
 * structures passed by value are made of the later ones. True of both ABIs vramgc knows. */
typedef int words(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                  uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static int call(const struct caller *caller, bool sentinels) {
    uint64_t w[ARGUMENTS];
    for (unsigned i = 0; i < ARGUMENTS; i++)
        w[i] = sentinels ? 0x1111111111111111u * (i % 14 + 1) : 0;
    words *f = (words *)caller->call;
    return f(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13],
             w[14], w[15]);
}

static void one(const struct caller *caller, int result, bool sentinels) {
    struct echo *echo = caller->runtime ? runtime : driver;
    char text[200];
    unsigned calls = echo->calls;
    runtime->result = driver->result = result;
    int got = call(caller, sentinels);
    snprintf(text, sizeof text, "%s: error %d comes back as it was (got %d)", caller->symbol,
             result, got);
    check_that(__FILE__, __LINE__, got == result, text);
    snprintf(text, sizeof text, "%s reaches the real function once (it was %u times, %s)",
             caller->symbol, echo->calls - calls, echo->name ? echo->name : "nothing");
    check_that(__FILE__, __LINE__,
               echo->calls == calls + 1 && strcmp(echo->name, caller->symbol) == 0, text);
    snprintf(text, sizeof text, "%s: arguments are handed through", caller->symbol);
    check_that(__FILE__, __LINE__,
               echo->length == wanted.length &&
                   memcmp(echo->arguments, wanted.arguments, wanted.length) == 0,
               text);
}

static struct echo *state_of(const char *library) {
    struct echo *(*state)(void) = NULL;
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle)
        *(void **)&state = dlsym(handle, "echo_state");
    return state ? state() : NULL;
}

int main(void) {
    runtime = state_of("libcudart.so.13");
    driver = state_of("libcuda.so.1");
    if (!CHECK(runtime && driver))
        return 1;
    driver->result =
        CUDA_ERROR_OUT_OF_MEMORY; /* a device is asked about when it is told of first */
    cuDevicePrimaryCtxRetain(NULL, 0);
    for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
        for (size_t r = 0; r < sizeof results / sizeof *results; r++) {
            one(&callers[i], results[r], true);
            one(&callers[i], results[r], false);
        }
    }
    return check_result("passthrough");
}
