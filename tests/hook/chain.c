/* chain.c: another interposer of cudaMalloc in front of vramgc or behind it. Each call passes
 * through both once, and is counted once. Linked with the runtime. */
#include "check.h"

#include "cuda/cuda_api.h"

#include <dlfcn.h>

int main(void) {
    void *p = NULL;
    unsigned (*third_calls)(void);
    *(void **)&third_calls = dlsym(RTLD_DEFAULT, "third_calls");
    if (!CHECK(third_calls != NULL))
        return 1;
    OK(cudaFree(NULL));
    watch(0);
    OK(cudaMalloc(&p, 3 * MIB));
    EXPECT(.held = 3 * MIB, .other = 3 * MIB);
    CHECK(third_calls() == 1);
    OK(cudaFree(p));
    UNCHANGED();
    return check_result("chain");
}
