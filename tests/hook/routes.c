/* routes.c: runs the fragments by one route to the functions, and checks at the end that every hook
 * of the table was reached. The route is the first argument:
 *   linked               direct calls, in a library linked with this program or loaded here
 *   local LIBRARY...     the same library, opened RTLD_LOCAL; several: one after the other
 *   dlsym LIBRARY        dlopen and dlsym on the handle, as ctypes does (the runtime or libcuda)
 *   proc4, proc5         dlsym of cuGetProcAddress, in either form
 *   self11030, self12000 that, asked for itself in that version, as the runtime does
 *   entry, entry-version cudaGetDriverEntryPoint, and ByVersion, of the runtime LIBRARY
 * The library must not be linked: routes that need it open it. */
#include "api.h"
#include "check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct api api;
struct further further;

typedef void fragments(void);

static struct {
    void *library;
    CUresult (*proc4)(const char *, void **, int, cuuint64_t);
    CUresult (*proc5)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    cudaError_t (*entry)(const char *, void **, unsigned long long,
                         enum cudaDriverEntryPointQueryResult *);
    cudaError_t (*entry_version)(const char *, void **, unsigned, unsigned long long,
                                 enum cudaDriverEntryPointQueryResult *);
} self;

static void *open_library(const char *name, int how) {
    void *library = dlopen(name, RTLD_NOW | how);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return library;
}

/* --- from the name as exported to the name, version and flags as asked for --- */

struct query {
    char name[64];
    int version;
    bool per_thread;
};

static bool cut_suffix(char *name, const char *suffix) {
    size_t length = strlen(name), cut = strlen(suffix);
    if (length < cut || strcmp(name + length - cut, suffix) != 0)
        return false;
    name[length - cut] = 0;
    return true;
}

/* Forms that the device is too old for; what it has by that name takes other arguments. */
static bool is_newer(const char *symbol) {
    return strcmp(symbol, "cuMulticastBindMem_v2") == 0 ||
           strcmp(symbol, "cuMulticastBindAddr_v2") == 0 ||
           strcmp(symbol, "cuGraphAddNode_v2") == 0 || strcmp(symbol, "cuGraphAddNode_v3") == 0;
}

/* Forms that the device still has by that name; to be asked for as by programs of that time. */
static int version_of_old(const char *symbol) {
    static const struct {
        const char *symbol;
        int version;
    } list[] = {{"cuMemHostRegister", 4000},
                {"cuIpcOpenMemHandle", 4010},
                {"cuDevicePrimaryCtxRelease", 7000},
                {"cuDevicePrimaryCtxReset", 7000},
                {"cuCtxCreate", 2000},
                {"cuCtxDestroy", 2000},
                {"cuStreamDestroy", 2000},
                {"cuStreamBeginCapture", 10000},
                {"cuMemAlloc", 2000},
                {"cuMemAllocPitch", 2000},
                {"cuMemAllocHost", 2000},
                {"cuArrayCreate", 2000},
                {"cuArray3DCreate", 2000},
                {"cuGraphAddNode", 12020},
                {"cuStreamBeginCapture_ptsz", 10000}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(list[i].symbol, symbol) == 0)
            return list[i].version;
    return 0;
}

static struct query query_of(const char *symbol) {
    struct query query = {.version = 12010};
    snprintf(query.name, sizeof query.name, "%s", symbol);
    query.per_thread = cut_suffix(query.name, "_ptsz");
    cut_suffix(query.name, "_v2");
    if (strcmp(query.name, "cuCtxCreate") == 0)
        query.version = 10000; /* later ones have other forms */
    if (cut_suffix(query.name, "_v3"))
        query.version = 11040;
    if (cut_suffix(query.name, "_v4"))
        query.version = 12050;
    if (strcmp(symbol, "cuGetProcAddress") == 0)
        query.version = 11030;
    if (version_of_old(symbol))
        query.version = version_of_old(symbol);
    if (strcmp(symbol, "cuGraphAddNode_v2") == 0)
        query.version = 12030;
    if (strcmp(symbol, "cuGraphAddNode_v3") == 0) /* CUDA 13.4's: not there */
        strcpy(query.name, symbol);
    if (is_newer(symbol))
        query.version = 13010;
    if (strcmp(symbol, "cuGreenCtxStreamCreate") == 0)
        query.version = 12050; /* not there before */
    if (strcmp(query.name, "cuStreamBeginCaptureToGraph") == 0)
        query.version = 12030;
    return query;
}

static void *by_dlsym(const char *symbol) {
    return dlsym(self.library, symbol);
}

static void *by_proc4(const char *symbol) {
    struct query query = query_of(symbol);
    void *f = NULL;
    self.proc4(query.name, &f, query.version, query.per_thread ? 2 : 1);
    return f;
}

static void *by_proc5(const char *symbol) {
    struct query query = query_of(symbol);
    void *f = NULL;
    self.proc5(query.name, &f, query.version, query.per_thread ? 2 : 0, NULL);
    return f;
}

static void *by_entry(const char *symbol) {
    struct query query = query_of(symbol);
    enum cudaDriverEntryPointQueryResult status;
    void *f = NULL;
    if (!is_newer(symbol) && !version_of_old(symbol))
        self.entry(query.name, &f, query.per_thread ? 2 : 0, &status);
    /* The runtime's own version may have another form of it, or be from before it. */
    if (!f || strcmp(query.name, "cuCtxCreate") == 0 || strcmp(symbol, "cuGetProcAddress") == 0)
        f = dlsym(open_library("libcuda.so.1", RTLD_LOCAL), symbol);
    return f;
}

static void *by_entry_version(const char *symbol) {
    struct query query = query_of(symbol);
    enum cudaDriverEntryPointQueryResult status;
    void *f = NULL;
    self.entry_version(query.name, &f, (unsigned)query.version, query.per_thread ? 2 : 0, &status);
    return f;
}

/* ISO C has no conversion from an object's address to a function's; POSIX promises it works. */
static void fill(void *(*find)(const char *), bool runtime) {
#define SET_IN(where, library, symbol)                                                             \
    if ((library == CUDART) == runtime)                                                            \
        *(void **)&where.symbol = find(#symbol);
#define SET(library, result, symbol, parameters, arguments)         SET_IN(api, library, symbol)
#define SET_FURTHER(library, result, symbol, parameters, arguments) SET_IN(further, library, symbol)
    enum { CUDART, CUDA, C10, TORCH, AIMDO };
#define HOOK(library, result, symbol, parameters, arguments)                                       \
    HOOK_##library(library, result, symbol, parameters, arguments)
#define PASS        HOOK
#define NEED        C10_ONLY
#define HOOK_CUDART SET
#define HOOK_CUDA   SET
#define HOOK_C10    C10_ONLY
#define HOOK_TORCH  C10_ONLY
#define HOOK_AIMDO  C10_ONLY
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED
#undef HOOK_CUDART
#undef HOOK_CUDA
#undef HOOK_C10
#undef HOOK_TORCH
#undef HOOK_AIMDO
    FURTHER_RUNTIME(SET_FURTHER)
    FURTHER_DRIVER(SET_FURTHER)
}

/* --- every hook of the library under test must have been reached --- */

/* So frequent that the calls are not counted; tests/c10 sees what those of events do. */
static bool uncounted(const char *symbol) {
    return strncmp(symbol, "cudaEvent", 9) == 0 || strcmp(symbol, "cudaGetLastError") == 0;
}

/* filled: a function that the library does not have cannot have been called. */
static void all_reached(bool runtime, bool filled) {
    enum { CUDART, CUDA, C10, TORCH, AIMDO };
#define REACHED(library, result, symbol, parameters, arguments)                                    \
    if (library == (runtime ? CUDART : CUDA) && (!filled || api.symbol) && !calls_of(#symbol) &&   \
        !uncounted(#symbol))                                                                       \
        check_that(__FILE__, __LINE__, false, "no fragment reached " #symbol);
#define HOOK(library, result, symbol, parameters, arguments)                                       \
    HOOK_##library(library, result, symbol, parameters, arguments)
#define PASS        HOOK
#define ASK         C10_ONLY /* not counted: entries.c */
#define NEED        C10_ONLY
#define HOOK_CUDART REACHED
#define HOOK_CUDA   REACHED
#define HOOK_C10    C10_ONLY
#define HOOK_TORCH  C10_ONLY
#define HOOK_AIMDO  C10_ONLY
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED
}

static void nothing_odd(void) {
    const struct vramgc_file *file = check_file();
    CHECK(file && file->process.lost_frees == 0);
    CHECK(file && file->process.unknown_frees == 0);
    CHECK(file && file->process.unmatched_blocks == 0);
    CHECK(file && file->process.internal_errors == 0);
}

static fragments *named(void *library, const char *name) {
    fragments *function;
    *(void **)&function = dlsym(library, name);
    return function;
}

static void run(fragments *function, bool runtime, bool filled) {
    if (CHECK(function != NULL)) {
        function();
        all_reached(runtime, filled);
        nothing_odd();
    }
}

static void through_client(const char *client, bool runtime) {
    void *library = open_library(client, RTLD_LOCAL);
    run(named(library, runtime ? "runtime_fragments" : "driver_fragments"), runtime, false);
}

static void through_driver(const char *route) {
    self.library = open_library("libcuda.so.1", RTLD_LOCAL);
    *(void **)&self.proc4 = by_dlsym("cuGetProcAddress");
    *(void **)&self.proc5 = by_dlsym("cuGetProcAddress_v2");
    if (strcmp(route, "self11030") == 0)
        OK(self.proc5("cuGetProcAddress", (void **)&self.proc4, 11030, 0, NULL));
    if (strcmp(route, "self12000") == 0)
        OK(self.proc5("cuGetProcAddress", (void **)&self.proc5, 12000, 0, NULL));
    bool four = strcmp(route, "proc4") == 0 || strcmp(route, "self11030") == 0;
    fill(four ? by_proc4 : by_proc5, false);
    run(driver_fragments, false, true);
}

static void through_runtime(const char *route, const char *library) {
    self.library = open_library(library, RTLD_LOCAL);
    *(void **)&self.entry = by_dlsym("cudaGetDriverEntryPoint");
    *(void **)&self.entry_version = by_dlsym("cudaGetDriverEntryPointByVersion");
    fill(strcmp(route, "entry") == 0 ? by_entry : by_entry_version, false);
    run(driver_fragments, false, true);
}

int main(int count, char **arguments) {
    const char *route = count > 1 ? arguments[1] : "";
    const char *library = count > 2 ? arguments[2] : "";
    bool runtime = strstr(library, "cuda.so") == NULL;
    if (strcmp(route, "local") == 0) {
        for (int i = 2; i < count; i++)
            through_client(arguments[i], strstr(arguments[i], "driver") == NULL);
    } else if (strcmp(route, "dlsym") == 0) {
        self.library = open_library(library, RTLD_LOCAL);
        fill(by_dlsym, runtime);
        run(runtime ? runtime_fragments : driver_fragments, runtime, true);
    } else if (strncmp(route, "entry", 5) == 0) {
        through_runtime(route, library);
    } else {
        through_driver(route);
    }
    return check_result(route);
}
