/* bench_real.c: what libvramgc.so adds to a block of PyTorch's real allocator (libc10_cuda.so),
 * taken and given back. Started by bench.py as bench.c is; its argument is
 * build/bench/libreal_allocator.so. */
#include "rounds.h"

#include <dlfcn.h>
#include <stdio.h>

enum { PAIRS = 1000, ROUNDS = 400 };

static const size_t block_bytes = 100000;

/* [0] without the library, [1] with it. */
static double (*loops[2])(size_t bytes, size_t count);

static void load(const char *path, int side) {
    void *handle =
        side == 0 ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!handle)
        give_up(dlerror());
    int (*start)(void) = (int (*)(void))dlsym(handle, "bench_start");
    loops[side] = (double (*)(size_t, size_t))dlsym(handle, "bench_pairs");
    if (!start || !loops[side] || start() != 0)
        give_up("PyTorch's allocator does not start");
}

static double round_of_pairs(bool with_library, void *context) {
    (void)context;
    double took = loops[with_library](block_bytes, PAIRS);
    if (took < 0)
        give_up("PyTorch's allocator refused");
    return took / PAIRS;
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: bench_real LIBRARY\n");
        return 2;
    }
    load(arguments[1], 1);
    load(arguments[1], 0);
    if (!dlsym(RTLD_DEFAULT, "vramgc_version"))
        give_up("libvramgc.so is not in front");
    struct comparison result = compare(round_of_pairs, NULL, ROUNDS);
    print_comparison("alloc and free of a block, PyTorch's real allocator", &result, PAIRS);
    return 0;
}
