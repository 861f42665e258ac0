/* bench.c: what libvramgc.so costs in one process: block events, cudaMalloc, and look-ups, each
 * with and without it in turn. Started by bench.py with libvramgc.so in front, on the simulated
 * device. "Without" is the original function: PyTorch's from libc10.so, the C library's dlsym, and
 * a second CUDA runtime with a driver of its own in a namespace of the loader (dlmopen) that no
 * preloaded object enters. One line of JSON for each row on standard output.
 *
 *   bench blocks      block events at several numbers of live blocks
 *   bench calls       cudaMalloc/cudaFree pairs and look-ups
 *   bench memory N    resident memory with N live blocks; also without libvramgc.so */
#include "rounds.h"
#include "standin/caller.h"
#include "trace.h"
#include "vramgc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 2000, ROUNDS = 400, PAIRS = 50, LOOKUPS = 200, CHUNK = 1 << 16 };

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, int64_t bytes, size_t allocated,
                                                           size_t reserved, uint64_t device);

typedef void *(*dlsym_function)(void *handle, const char *name);
typedef int (*proc_address_function)(const char *name, void **f, int version, uint64_t flags,
                                     void *status);

/* [0] without the library, [1] with it. */
static struct {
    void *runtime[2], *driver[2];
    dlsym_function dlsym[2];
    report_function report[2];
    capturing_function capturing[2];
    malloc_function allocate[2];
    free_function give_back[2];
    proc_address_function proc_address[2];
} api;

static void *must_open(const char *name, bool apart) {
    void *handle = apart ? dlmopen(LM_ID_NEWLM, name, RTLD_NOW) : dlopen(name, RTLD_NOW);
    if (!handle)
        give_up(dlerror());
    return handle;
}

static void *must_find(dlsym_function find, void *handle, const char *name) {
    void *found = find(handle, name);
    if (!found)
        give_up(name);
    return found;
}

/* The C library's dlsym, past any preloaded one. */
static dlsym_function real_dlsym(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        if (found)
            return (dlsym_function)found;
    }
    give_up("no dlsym in the C library");
}

/* What a program that is linked against it would be bound to: the preloaded one, if any. */
static void *bound(const char *name) {
    return must_find(dlsym, RTLD_DEFAULT, name);
}

static void find_report(void) {
    void *c10 = must_open("libc10.so", false);
    api.dlsym[0] = real_dlsym();
    api.dlsym[1] = dlsym;
    api.report[0] = (report_function)must_find(api.dlsym[0], c10, REPORT);
    api.report[1] = _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;
    api.runtime[1] = must_open("libcudart.so.13", false);
    api.allocate[1] = (malloc_function)bound("cudaMalloc");
    api.give_back[1] = (free_function)bound("cudaFree");
    api.capturing[1] = (capturing_function)bound("cudaStreamIsCapturing");
}

static void find_all(void) {
    void *p;
    find_report();
    api.runtime[0] = must_open("libcudart.so.13", true);
    api.allocate[0] = (malloc_function)must_find(api.dlsym[0], api.runtime[0], "cudaMalloc");
    api.give_back[0] = (free_function)must_find(api.dlsym[0], api.runtime[0], "cudaFree");
    api.capturing[0] =
        (capturing_function)must_find(api.dlsym[0], api.runtime[0], "cudaStreamIsCapturing");
    for (int side = 0; side < 2; side++) /* brings both drivers up */
        if (api.allocate[side](&p, 1) != 0 || api.give_back[side](p) != 0)
            give_up("cudaMalloc failed");
    api.driver[1] = must_open("libcuda.so.1", false);
    for (int side = 0; side < 2; side++)
        api.proc_address[side] =
            (proc_address_function)must_find(api.dlsym[side], api.driver[1], "cuGetProcAddress_v2");
    if (api.report[0] == api.report[1] || api.proc_address[0] == api.proc_address[1])
        give_up("libvramgc.so is not in front");
}

static uint64_t new_segment(size_t bytes) {
    void *p = allocator_segment(api.capturing[1], api.allocate[1], bytes);
    if (!p)
        give_up("no memory for a segment");
    return (uint64_t)(uintptr_t)p;
}

/* ---- block events ---- */

struct blocks {
    struct trace *trace;
    struct block_event events[EVENTS];
    bool used_once;
};

/* Both sides play the same events. */
static double play(bool with_library, void *context) {
    struct blocks *blocks = context;
    if (!blocks->used_once)
        trace_continue(blocks->trace, blocks->events, EVENTS);
    blocks->used_once = !blocks->used_once;
    return allocator_play(api.report[with_library], blocks->events, EVENTS) / EVENTS;
}

static void warm_up(struct trace *trace, report_function report) {
    static struct block_event events[CHUNK];
    for (size_t left = trace_warm_up(trace); left > 0;) {
        size_t count = left < CHUNK ? left : CHUNK;
        trace_continue(trace, events, count);
        allocator_play(report, events, count);
        left -= count;
    }
}

static uint64_t blocks_seen(void) {
    struct vramgc_snapshot snapshot = {.size = sizeof snapshot};
    int (*ask)(int, struct vramgc_snapshot *) =
        (int (*)(int, struct vramgc_snapshot *))bound("vramgc_snapshot");
    if (ask(0, &snapshot) != 0)
        give_up("libvramgc.so does not record");
    return snapshot.blocks;
}

/* One block, given back and handed out again: the cost without any cache miss. */
static double play_one_block(bool with_library, void *context) {
    const struct block_event *events = context;
    return allocator_play(api.report[with_library], events, EVENTS) / EVENTS;
}

static void bench_one_block(void) {
    static struct block_event events[EVENTS];
    uint64_t address = new_segment(TRACE_SEGMENT_BYTES);
    for (size_t i = 0; i < EVENTS; i++)
        events[i] = (struct block_event){address, i % 2 ? -4096 : 4096};
    struct comparison result = compare(play_one_block, events, ROUNDS);
    print_comparison("block event, one block", &result, EVENTS);
}

static void bench_blocks(void) {
    static const struct {
        const char *name;
        size_t live;
    } sizes[] = {{"block event, 10^3 live blocks", 1000},
                 {"block event, 10^4 live blocks", 10000},
                 {"block event, 10^5 live blocks", 100000},
                 {"block event, 10^6 live blocks", 1000000}};
    bench_one_block();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        static struct blocks blocks;
        uint64_t before = blocks_seen();
        blocks.trace = trace_create(sizes[i].live, new_segment);
        warm_up(blocks.trace, api.report[1]);
        struct comparison result = compare(play, &blocks, ROUNDS);
        print_comparison(sizes[i].name, &result, EVENTS);
        if (blocks_seen() - before != trace_live(blocks.trace))
            give_up("libvramgc.so lost count: what was timed is not the real work");
        trace_destroy(blocks.trace);
    }
}

/* ---- cudaMalloc ---- */

static double allocators_pairs(int side) {
    return allocator_pairs(api.capturing[side], api.allocate[side], api.give_back[side],
                           TRACE_SEGMENT_BYTES, PAIRS);
}

/* Called from this object, which is not PyTorch's allocator. */
static double other_pairs(int side) {
    void *p = NULL;
    int failed = 0;
    uint64_t start = now_ns();
    for (size_t i = 0; i < PAIRS; i++) {
        failed |= api.allocate[side](&p, TRACE_SEGMENT_BYTES);
        failed |= api.give_back[side](p);
    }
    uint64_t took = now_ns() - start;
    return failed ? -1 : (double)took;
}

typedef double (*pairs_function)(int side);

static double pairs(bool with_library, void *context) {
    pairs_function loop = *(pairs_function *)context;
    double took = loop(with_library);
    if (took < 0)
        give_up("cudaMalloc or cudaFree failed");
    return took / PAIRS;
}

static void bench_pairs(const char *name, pairs_function loop) {
    struct comparison result = compare(pairs, &loop, ROUNDS);
    print_comparison(name, &result, PAIRS);
}

/* ---- look-ups ---- */

static double look_up(bool with_library, void *context) {
    const char *name = context;
    uint64_t start = now_ns();
    for (int i = 0; i < LOOKUPS; i++)
        if (!api.dlsym[with_library](api.driver[1], name))
            give_up(name);
    return (double)(now_ns() - start) / LOOKUPS;
}

static double ask_driver(bool with_library, void *context) {
    void *found;
    uint64_t start = now_ns();
    for (int i = 0; i < LOOKUPS; i++)
        if (api.proc_address[with_library](context, &found, 12000, 0, NULL) != 0)
            give_up(context);
    return (double)(now_ns() - start) / LOOKUPS;
}

static void bench_look_ups(void) {
    static const struct {
        const char *row, *name;
        round_function round;
    } rows[] = {{"dlsym, name not hooked", "cuLaunchKernel", look_up},
                {"dlsym, hooked name", "cuMemAlloc_v2", look_up},
                {"cuGetProcAddress, name not hooked", "cuLaunchKernel", ask_driver},
                {"cuGetProcAddress, hooked name", "cuMemAlloc", ask_driver}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", rows[i].name);
        struct comparison result = compare(rows[i].round, name, ROUNDS);
        print_comparison(rows[i].row, &result, LOOKUPS);
    }
}

/* ---- memory ---- */

static unsigned long field(const char *file, const char *name) {
    char line[256];
    unsigned long value = 0;
    FILE *in = fopen(file, "r");
    if (!in)
        give_up(file);
    while (fgets(line, sizeof line, in))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoul(line + strlen(name), NULL, 10);
    fclose(in);
    return value;
}

static void bench_memory(size_t live) {
    struct trace *trace = trace_create(live, new_segment);
    warm_up(trace, api.report[1]);
    trace_destroy(trace);
    printf("{\"live\": %zu, \"resident_kib\": %lu}\n", live, field("/proc/self/status", "VmRSS:"));
}

int main(int count, char **arguments) {
    if (count == 3 && strcmp(arguments[1], "memory") == 0) {
        find_report();
        bench_memory(strtoul(arguments[2], NULL, 10));
        return 0;
    }
    if (count == 2 && strcmp(arguments[1], "blocks") == 0) {
        find_all();
        bench_blocks();
        return 0;
    }
    if (count == 2 && strcmp(arguments[1], "calls") == 0) {
        find_all();
        bench_pairs("cudaMalloc/cudaFree of a segment of PyTorch's", allocators_pairs);
        bench_pairs("cudaMalloc/cudaFree pair, another caller", other_pairs);
        bench_look_ups();
        return 0;
    }
    fprintf(stderr, "usage: bench blocks | calls | memory BLOCKS\n");
    return 2;
}
