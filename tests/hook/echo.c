/* echo.c: libraries with every function of hooks.def that only note their arguments and answer
 * what they are told: a runtime (-DLIBRARY_CUDART) and a driver (-DLIBRARY_CUDA). With them it
 * can be seen that a wrapper changes neither arguments nor results, on errors too. The functions
 * that vramgc itself needs, all of ASK too, fail, and are not noted. */
#include "echo.h"

#include "cuda/cuda_api.h"

static struct echo self;

__attribute__((visibility("default"))) struct echo *echo_state(void) {
    return &self;
}

#define ECHO(kind, symbol, parameters, arguments)                                                  \
    __attribute__((visibility("default"))) kind symbol parameters {                                \
        struct echo *noted = &self;                                                                \
        noted->name = #symbol;                                                                     \
        noted->calls++;                                                                            \
        noted->length = 0;                                                                         \
        ECHO_ARGUMENTS arguments;                                                                  \
        return (kind)(intptr_t)noted->result;                                                      \
    }
#define FAIL(kind, symbol, parameters)                                                             \
    __attribute__((visibility("default"))) kind symbol parameters {                                \
        return (kind)999;                                                                          \
    }
#define SKIP(kind, symbol, parameters, arguments)

#define HOOK(library, kind, symbol, parameters, arguments)                                         \
    HOOK_##library(kind, symbol, parameters, arguments)
#define PASS                                               HOOK
#define ASK                                                NEED
#define NEED(library, kind, symbol, parameters, arguments) NEED_##library(kind, symbol, parameters)
#define HOOK_C10                                           SKIP
#define NEED_C10(kind, symbol, parameters)
#define HOOK_TORCH SKIP
#define HOOK_AIMDO SKIP
#define NEED_AIMDO(kind, symbol, parameters)
#define NEED_CUDART(kind, symbol, parameters)
#if defined(LIBRARY_CUDART)
#define HOOK_CUDART ECHO
#define HOOK_CUDA   SKIP
#define NEED_CUDA(kind, symbol, parameters)
#else
#define HOOK_CUDART SKIP
#define HOOK_CUDA   ECHO
#define NEED_CUDA   FAIL
#endif
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "hooks.def"
