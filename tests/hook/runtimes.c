/* runtimes.c: two CUDA runtimes in one process: the call of a library goes to the runtime
 * that it was linked with. That one remembers the refusal. All are closed and opened again,
 * elsewhere. This is the program, linked with nothing, and (-DCLIENT) the library, linked with one
 * runtime. */
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
#include <sys/mman.h>

enum { ROUNDS = 2, MOST_CLIENTS = 8, HOLES = 64 };

static void *use(const char *path) {
    int (*refused)(void) = NULL, (*pass)(void) = NULL;
    void *client = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!CHECK(client != NULL))
        return NULL;
    *(void **)&refused = dlsym(client, "refused");
    *(void **)&pass = dlsym(client, "pass");
    OK(pass());
    CHECK(refused() == cudaErrorMemoryAllocation);
    return client;
}

/* What is opened next does not come to lie where something was closed. */
static void fill_holes(void) {
    for (int i = 0; i < HOLES; i++)
        mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < HOLES; i++)
        mmap(NULL, 16 * KIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(int count, char **arguments) {
    void *clients[MOST_CLIENTS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 1; i < count && i < MOST_CLIENTS; i++)
            clients[i] = use(arguments[round ? count - i : i]);
        for (int i = 1; i < count && i < MOST_CLIENTS; i++)
            dlclose(clients[i]);
        CHECK(dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD) == NULL);
        fill_holes();
    }
    const struct vramgc_file *file = check_file();
    CHECK(file && file->devices[0].stats.held_bytes.current == 0);
    CHECK(file && file->devices[0].stats.held_bytes.peak == 3 * MIB);
    CHECK(file && file->devices[0].stats.refusals == ROUNDS * ((uint64_t)count - 1));
    return check_result("runtimes");
}

#endif
