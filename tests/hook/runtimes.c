/* runtimes.c: two CUDA runtimes in one process: the call of a library goes to the runtime
 * that it was linked with. That one remembers the refusal. This is the program, linked with
 * nothing, and (-DCLIENT) the library, linked with one runtime. */
#include "cuda/cuda_api.h"

#ifdef CLIENT

int refused(void);
int refused(void) {
    void *p = NULL;
    if (cudaMalloc(&p, (size_t)1 << 50) != cudaErrorMemoryAllocation)
        return -1;
    return (int)cudaGetLastError(); /* not hooked */
}

int pass(void);
int pass(void) {
    void *p = NULL;
    int result = (int)cudaMalloc(&p, (size_t)3 << 20);
    return result ? result : (int)cudaFree(p);
}

#else

#include "check.h"

#include <dlfcn.h>

int main(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        int (*refused)(void) = NULL, (*pass)(void) = NULL;
        void *client = dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL);
        if (!CHECK(client != NULL))
            return 1;
        *(void **)&refused = dlsym(client, "refused");
        *(void **)&pass = dlsym(client, "pass");
        OK(pass());
        CHECK(refused() == cudaErrorMemoryAllocation);
    }
    const struct vramgc_file *file = check_file();
    CHECK(file && file->devices[0].stats.held_bytes.current == 0);
    CHECK(file && file->devices[0].stats.held_bytes.peak == 3 * MIB);
    CHECK(file && file->devices[0].stats.refusals == (uint64_t)count - 1);
    return check_result("runtimes");
}

#endif
