/* What the tests of the simulated runtime share. They are built once for each CUDA major against
 * that major's own headers and run on the simulated driver, whose knobs test_knobs sets. */
#ifndef SIM_TEST_RUNTIME_H
#define SIM_TEST_RUNTIME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB             ((size_t)1 << 20)
#define DEVICE_BYTES    (1024 * MIB)
#define assert_ok(call) assert_int_equal((call), cudaSuccess)

/* A function of the simulated driver's own test interface (driver/simgpu.h). */
static inline void *driver_function(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(driver);
    void *function = dlsym(driver, name);
    assert_non_null(function);
    return function;
}

typedef int stream_function(cudaStream_t stream);

static inline void hold(cudaStream_t stream) {
    assert_int_equal(((stream_function *)(uintptr_t)driver_function("simgpu_hold"))(stream), 0);
}

static inline void release(cudaStream_t stream) {
    assert_int_equal(((stream_function *)(uintptr_t)driver_function("simgpu_release"))(stream), 0);
}

static inline size_t free_bytes(void) {
    size_t free_now = 0;
    size_t total = 0;
    assert_ok(cudaMemGetInfo(&free_now, &total));
    return free_now;
}

/* Two devices of 1 GiB; every copy moves its data. */
static inline void test_knobs(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    setenv("SIMGPU_DEVICES", "2", 1);
    setenv("SIMGPU_CC", "8.6", 1);
    unsetenv("SIMGPU_DATA_LIMIT");
    unsetenv("SIMGPU_D2H_ZERO");
}

#endif
