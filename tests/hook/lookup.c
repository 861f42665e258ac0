/* lookup.c: whoever asks for a function gets exactly what the driver would have answered,
 * result, status and pointer, only that the pointer of a hooked function is that of its wrapper.
 * The truth is what the driver's own functions say, reached by the C library's own dlsym. */
#include "check.h"

#include "cuda/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef CUresult proc4(const char *, void **, int, cuuint64_t);
typedef CUresult proc5(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef cudaError_t entry(const char *, void **, unsigned long long,
                          enum cudaDriverEntryPointQueryResult *);
typedef cudaError_t entry_version(const char *, void **, unsigned, unsigned long long,
                                  enum cudaDriverEntryPointQueryResult *);

static void *driver, *runtime;

static const int versions[] = {0,     2000,  3020,  4000,  7000,  10000, 11000, 11010,
                               11020, 11030, 12000, 12010, 12050, 13000, 99990};
static const cuuint64_t flags[] = {0, 1, 2, 3, 4, 255};

/* Base names and full names, what libraries of the same prefix export, and rubbish. */
static const char *const names[] = {
    "",
    "c",
    "cu",
    "cuMemAlloc",
    "cuMemAlloc_v2",
    "cuMemFree",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemFreeAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemGetInfo",
    "cuMemHostAlloc",
    "cuMemAllocHost",
    "cuMemFreeHost",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemPoolDestroy",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuIpcOpenMemHandle",
    "cuIpcCloseMemHandle",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxReset",
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuArrayCreate",
    "cuInit",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuDriverGetVersion",
    "cuLaunchKernel",
    "cuMemcpyAsync",
    "cuGetErrorString",
    "cuMemGetAllocationGranularity",
    "cudnnCreate",
    "cublasCreate_v2",
    "cuNoSuchFunction",
    "malloc",
};

/* The symbol of the wrapper, or NULL where the pointer is not vramgc's. */
static const char *wrapper_name(void *pointer) {
    Dl_info info;
    if (!pointer || !dladdr(pointer, &info) || !info.dli_fname ||
        !strstr(info.dli_fname, "libvramgc.so"))
        return NULL;
    return info.dli_sname ? info.dli_sname : "?";
}

static bool is_hooked(const char *symbol) {
#define HOOK(library, result, name, parameters, arguments)                                         \
    if (strcmp(#name, symbol) == 0)                                                                \
        return true;
#define PASS HOOK
#define NEED(library, result, name, parameters, arguments)
#include "hooks.def"
    return false;
}

/* What the pointer must be, given the driver's own: its wrapper, which has the same name, or a stub
 * (entries.c sees what it leads to). */
static bool matches(void *truth, void *got) {
    Dl_info info;
    if (!truth || !dladdr(truth, &info) || !info.dli_sname)
        return got == truth;
    const char *wrapper = wrapper_name(got);
    if (!strstr(info.dli_fname, "libcuda"))
        return got == truth;
    return wrapper && (!is_hooked(info.dli_sname) || strcmp(wrapper, info.dli_sname) == 0);
}

/* dlvsym is not overridden. */
static void *unhooked(void *handle, const char *symbol) {
    static const char *const of_libc[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *(*real)(void *, const char *) = NULL;
    for (size_t i = 0; !real && i < sizeof of_libc / sizeof *of_libc; i++)
        *(void **)&real = dlvsym(RTLD_DEFAULT, "dlsym", of_libc[i]);
    return real ? real(handle, symbol) : NULL;
}

static void *truth_of(const char *symbol) {
    return unhooked(driver, symbol);
}

static void complain(bool holds, const char *how, const char *name, int version, cuuint64_t flag) {
    char text[200];
    snprintf(text, sizeof text, "%s(\"%s\", version %d, flags %llu) as the driver answers", how,
             name ? name : "(null)", version, (unsigned long long)flag);
    check_that(__FILE__, __LINE__, holds, text);
}

static void compare4(proc4 *truth, proc4 *ours, const char *name, int version, cuuint64_t flag) {
    void *a = (void *)0x10, *b = (void *)0x10;
    CUresult wanted = truth(name, &a, version, flag);
    CUresult got = ours(name, &b, version, flag);
    complain(wanted == got && matches(a, b), "cuGetProcAddress", name, version, flag);
}

static void compare5(proc5 *truth, proc5 *ours, const char *name, int version, cuuint64_t flag) {
    void *a = (void *)0x10, *b = (void *)0x10, *c = (void *)0x10;
    CUdriverProcAddressQueryResult one = 77, two = 77;
    CUresult wanted = truth(name, &a, version, flag, &one);
    CUresult got = ours(name, &b, version, flag, &two);
    complain(wanted == got && one == two && matches(a, b), "cuGetProcAddress_v2", name, version,
             flag);
    got = ours(name, &c, version, flag, NULL);
    complain(wanted == got && b == c, "cuGetProcAddress_v2 without status", name, version, flag);
}

static void compare_entries(const char *name, int version, cuuint64_t flag) {
    entry *truth, *ours;
    entry_version *truth_version, *ours_version;
    void *a = NULL, *b = NULL;
    enum cudaDriverEntryPointQueryResult one = 77, two = 77;
    *(void **)&truth = unhooked(runtime, "cudaGetDriverEntryPoint");
    *(void **)&ours = dlsym(runtime, "cudaGetDriverEntryPoint");
    *(void **)&truth_version = unhooked(runtime, "cudaGetDriverEntryPointByVersion");
    *(void **)&ours_version = dlsym(runtime, "cudaGetDriverEntryPointByVersion");
    if (!CHECK(truth && ours && truth_version && ours_version && truth != ours))
        return;
    cudaError_t wanted = truth_version(name, &a, (unsigned)version, flag, &one);
    cudaError_t got = ours_version(name, &b, (unsigned)version, flag, &two);
    /* The runtime itself asked through vramgc's cuGetProcAddress: its pointers are wrappers too. */
    complain(wanted == got && one == two && a == b, "cudaGetDriverEntryPointByVersion", name,
             version, flag);
    wanted = truth(name, &a, flag, &one);
    got = ours(name, &b, flag, &two);
    complain(wanted == got && one == two && a == b, "cudaGetDriverEntryPoint", name, 0, flag);
    void *of_driver = NULL;
    proc5 *ask;
    *(void **)&ask = truth_of("cuGetProcAddress_v2");
    if (ask(name, &of_driver, 13000, flag, NULL) == CUDA_SUCCESS && got == cudaSuccess)
        complain(matches(of_driver, b), "cudaGetDriverEntryPoint's pointer", name, 0, flag);
}

static void everything(void (*compare)(const char *, int, cuuint64_t)) {
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
            for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
                compare(names[n], versions[v], flags[f]);
}

static proc4 *true4, *our4, *self4;
static proc5 *true5, *our5, *self5;

static void look_up(const char *name, int version, cuuint64_t flag) {
    compare4(true4, our4, name, version, flag);
    compare4(true4, self4, name, version, flag);
    compare5(true5, our5, name, version, flag);
    compare5(true5, self5, name, version, flag);
}

static void by_name(void) {
    *(void **)&true4 = truth_of("cuGetProcAddress");
    *(void **)&true5 = truth_of("cuGetProcAddress_v2");
    *(void **)&our4 = dlsym(driver, "cuGetProcAddress");
    *(void **)&our5 = dlsym(driver, "cuGetProcAddress_v2");
    if (!CHECK(true4 && true5 && wrapper_name((void *)our4) && wrapper_name((void *)our5)))
        return;
    OK(our5("cuGetProcAddress", (void **)&self4, 11030, 0, NULL));
    OK(our5("cuGetProcAddress", (void **)&self5, 12000, 0, NULL));
    CHECK(self4 == our4 && self5 == our5);
    everything(look_up);
    CHECK(our5("cuMemAlloc", NULL, 12000, 0, NULL) == true5("cuMemAlloc", NULL, 12000, 0, NULL));
    CHECK(our4(NULL, (void **)&self4, 12000, 0) == true4(NULL, (void **)&self4, 12000, 0));
}

/* dlsym on handles: hooked symbols only by their full names; everything else exactly as it was. */
static void by_dlsym(void) {
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        void *truth = strcmp(names[n], "malloc") ? truth_of(names[n]) : NULL;
        void *got = dlsym(driver, names[n]);
        if (strcmp(names[n], "malloc") == 0)
            truth = got; /* from libc, a dependency of the driver */
        complain(matches(truth, got), "dlsym", names[n], 0, 0);
    }
    CHECK(dlsym(driver, "cudaMalloc") == NULL);
    const char *error = dlerror();
    CHECK(error && strstr(error, "cudaMalloc"));
    CHECK(dlerror() == NULL);
    dlsym(driver, "cuNoSuchFunction");
    CHECK(dlsym(driver, "cuMemAlloc_v2") != NULL);
    CHECK(dlerror() == NULL); /* a success leaves no error behind, as without vramgc */
    CHECK(wrapper_name(dlsym(runtime, "cudaMalloc")) != NULL);
    CHECK(wrapper_name(dlsym(runtime, "cudaLaunchKernel")) == NULL);
    CHECK(dlsym(NULL, "cuNoSuchFunction") == NULL); /* NULL is RTLD_DEFAULT, not an error */
    CHECK(dlerror() != NULL);
}

/* A handle of something that has the symbol for another reason is asked like any other. */
static void foreign(void) {
    void *program = dlopen(NULL, RTLD_NOW);
    CHECK(dlsym(program, "main_is_exported") != NULL);
    CHECK(dlsym(program, "printf") == (void *)printf);
    dlclose(program);
}

int main_is_exported(void);
int main_is_exported(void) {
    return 0;
}

int main(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    runtime = dlopen("libcudart.so.13", RTLD_NOW);
    if (!CHECK(driver && runtime))
        return 1;
    CHECK(truth_of("cuMemAlloc_v2") && !wrapper_name(truth_of("cuMemAlloc_v2")));
    by_dlsym();
    by_name();
    everything(compare_entries);
    foreign();
    CHECK(check_file() == NULL); /* look-ups start nothing */
    return check_result("lookup");
}
