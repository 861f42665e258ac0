/* no_cuda.c: programs ask by dlsym whether there is a CUDA. Where none is loaded they must
 * be told so, with an error, though vramgc itself has functions of those names. Linked with
 * nothing. */
#include "check.h"

#include <dlfcn.h>
#include <string.h>

int own_function(void);
int own_function(void) {
    return 7;
}

static void is_absent(void *handle, const char *name) {
    dlerror();
    CHECK(dlsym(handle, name) == NULL);
    const char *error = dlerror();
    CHECK(error && strstr(error, name));
    CHECK(dlerror() == NULL);
}

static void is_there(void *handle, const char *name) {
    dlerror();
    CHECK(dlsym(handle, name) != NULL);
    CHECK(dlerror() == NULL);
}

int main(void) {
    void *program = dlopen(NULL, RTLD_NOW);
    void *handles[] = {RTLD_DEFAULT, program};
    for (int i = 0; i < 2; i++) {
        is_absent(handles[i], "cuInit");
        is_absent(handles[i], "cudaMalloc");
        is_absent(handles[i], "cuArrayCreate_v2");
        is_there(handles[i], "own_function");
        is_there(handles[i], "printf");
        is_there(handles[i], "vramgc_version");
    }
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != NULL);
    for (int i = 0; i < 2; i++) {
        is_there(handles[i], "cuInit");
        is_absent(handles[i], "cudaMalloc");
    }
    CHECK(check_file() == NULL);
    return check_result("no_cuda");
}
