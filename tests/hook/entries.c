/* entries.c: whatever a program calls of the driver, by whichever road, is counted before the
 * driver gets it, while another process parks this one at rest: by that it is woken. The driver,
 * another object by -DDRIVER, has all names that CUDA's headers have, and one that they have not.
 * What asks only is not counted. */
#include <stddef.h>
#include <string.h>

#ifdef DRIVER

/* What it was called with, what was there meanwhile, and what it answers. */
unsigned long long came[8], seen;
const unsigned long long *look_at = &seen;
int answer;

#define ENTRY(name)                                                                                \
    int name(unsigned long long a, unsigned long long b, unsigned long long c,                     \
             unsigned long long d, unsigned long long e, unsigned long long f,                     \
             unsigned long long g, unsigned long long h) {                                         \
        const unsigned long long got[] = {a, b, c, d, e, f, g, h};                                 \
        memcpy(came, got, sizeof got);                                                             \
        seen = (unsigned)*look_at;                                                                 \
        return answer;                                                                             \
    }
#define NAME(name)          {#name, (void *)name},
#define cuGetProcAddress_v2 the_other
#include "entries.def"
ENTRY(cuFromTheFuture)

static const struct {
    const char *name;
    void *function;
} entries[] = {
#undef ENTRY
#define ENTRY NAME
#include "entries.def"
    NAME(cuFromTheFuture)};
#undef cuGetProcAddress_v2

/* By whole names: real ones are asked for base names. */
int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long long flags,
                        void *status) {
    *f = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].name, name) == 0)
            *f = entries[i].function;
    (void)version, (void)flags, (void)status;
    return *f ? 0 : 500;
}

#else

#include "check.h"
#include "cuda/cuda_api.h"
#include "vramgc_format.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int function(unsigned long long, unsigned long long, unsigned long long, unsigned long long,
                     unsigned long long, unsigned long long, unsigned long long,
                     unsigned long long);
typedef CUresult proc5(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static struct vramgc_file *file;
static void *driver;
static proc5 *ask;

#define ENTRY(name) #name,
static const char *const names[] = {
#include "entries.def"
    "cuFromTheFuture"};

static const char *const questions[] = {
#define HOOK(library, result, symbol, parameters, arguments)
#define PASS                                                HOOK
#define NEED                                                HOOK
#define ASK(library, result, symbol, parameters, arguments) #symbol,
#include "hooks.def"
};

static bool is_question(const char *name) {
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (strcmp(questions[i], name) == 0)
            return true;
    return false;
}

static uint64_t calls(void) {
    uint64_t sum = file->entered;
    for (uint64_t i = 0; i < file->hook_count; i++)
        sum += file->hooks[i].calls;
    return sum;
}

static void expect(const char *name, const char *road, bool holds) {
    char text[160];
    snprintf(text, sizeof text, "%s by %s", name, road);
    check_that(__FILE__, __LINE__, holds, text);
}

/* Of those that are not hooked the arguments come as they are; the wrappers have passthrough.c. */
static void try(const char *name, const char *road, void *found, bool stub) {
    unsigned long long *came = dlsym(driver, "came");
    memset(came, 0, 8 * sizeof *came);
    file->parker = 0;
    uint64_t before = file->entered;
    if (!found || strncmp(name, "cuGetProcAddress", 16) == 0)
        return expect(name, road, found != NULL);
    ((function *)found)(0, 0, 0, 0, 0, 0, 0, 0);
    expect(name, "counted in vain", file->entered == before);
    file->parker = (uint64_t)getpid();
    before = calls();
    bool question = is_question(name);
    if (stub || question)
        ((function *)found)(1, 2, 3, 4, 5, 6, 7, 8);
    else
        ((function *)found)(0, 0, 0, 0, 0, 0, 0, 0);
    expect(name, road, (calls() > before) == !question && (uint32_t)file->asking == 0);
    expect(name, "its argument", !question || came[0] == 1);
    expect(name, "seen to stand there",
           !question || *(unsigned long long *)dlsym(driver, "seen") == 1);
    for (unsigned long long i = 0; stub && i < 8; i++)
        expect(name, "its arguments", came[i] == i + 1);
    file->parker = 0;
}

static bool is_stub(const char *name) {
    static const char *const hooked[] = {
#undef ASK
#undef HOOK
#undef NEED
#define HOOK(library, result, symbol, parameters, arguments) #symbol,
#define PASS                                                 HOOK
#define NEED(library, result, symbol, parameters, arguments)
#include "hooks.def"
    };
    for (size_t i = 0; i < sizeof hooked / sizeof *hooked; i++)
        if (strcmp(hooked[i], name) == 0)
            return false;
    return true;
}

static void try_all(void) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *found = NULL, *global = dlsym(RTLD_DEFAULT, names[i]);
        bool stub = is_stub(names[i]), new = strcmp(names[i], "cuFromTheFuture") == 0;
        try(names[i], "dlsym", dlsym(driver, names[i]), stub);
        ask(names[i], &found, 13000, 0, NULL);
        try(names[i], "cuGetProcAddress", found, stub);
        expect(names[i], "the same by both",
               !stub || (found != NULL && found == dlsym(driver, names[i])));
        if (!new) /* nobody is linked with it: no header has it */
            try(names[i], "link", global, stub);
    }
}

/* Of the nodes of a graph one takes memory. */
static void add_nodes(void) {
    static const char *const forms[] = {"cuGraphAddNode", "cuGraphAddNode_v2", "cuGraphAddNode_v3"};
    CUgraphNodeParams empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY},
                      takes = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    for (int i = 0; i < 3; i++) {
        function *add = (function *)dlsym(driver, forms[i]);
        uint64_t before = file->process.unaccounted_calls;
        const CUgraphNodeParams *nodes[] = {&empty, &takes};
        for (int j = 0; add && j < 2; j++) {
            unsigned long long node = (uintptr_t)nodes[j];
            add(0, 0, 0, 0, i == 0 ? node : 0, node, 0, 0);
        }
        expect(forms[i], "a node of memory",
               file->process.unaccounted_calls == before + (add != 0));
    }
}

/* A driver that was looked at and closed is not called, and is not there. */
static void look_at_driver(void) {
    CHECK(dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2") == NULL);
    CHECK(strstr(dlerror(), "cuMemcpyHtoD_v2") != NULL);
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    function *found = (function *)dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2");
    CHECK(driver && found && found(1, 2, 3, 4, 5, 6, 7, 8) == CUDA_SUCCESS);
    dlclose(driver);
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
    CHECK(found(1, 2, 3, 4, 5, 6, 7, 8) == CUDA_ERROR_NOT_FOUND);
    CHECK(dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2") == NULL);
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
}

int main(void) {
    look_at_driver();
    if (!CHECK(driver != NULL))
        return 1;
    ask = (proc5 *)dlsym(driver, "cuGetProcAddress_v2");
    unsigned long long p = 4096;
    ((function *)dlsym(driver, "cuMemAlloc_v2"))((uintptr_t)&p, 4096, 0, 0, 0, 0, 0, 0);
    *(int *)dlsym(driver, "answer") =
        CUDA_ERROR_INVALID_VALUE; /* from now on; the record is begun */
    int fd = open(getenv("VRAMGC_OUT"), O_RDWR);
    file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!CHECK(fd >= 0 && file != MAP_FAILED))
        return 1;
    *(const void **)dlsym(driver, "look_at") = &file->asking;
    try_all();
    *(int *)dlsym(driver, "answer") = CUDA_SUCCESS;
    add_nodes();
    return check_result("entries");
}

#endif
