/* Shared by the tests of the simulated driver: a fresh context for each test, and a check that the
 * device reported exactly the errors that the test provoked. */
#ifndef TEST_DRIVER_H
#define TEST_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#include "driver/simgpu.h"

#define MIB ((size_t)1 << 20)

#define ok(call)              assert_int_equal((call), CUDA_SUCCESS)
#define fails(call, expected) assert_int_equal((call), (expected))

/* As tests/seed.h, which is not the device's. */
static inline unsigned seed_from(unsigned standard) {
    const char *text = getenv("SEED");
    return standard + (text ? (unsigned)strtoul(text, NULL, 10) : 0);
}

static unsigned long errors_at_start, errors_wanted;

/* The test has just provoked this many reports. */
static inline void expect_reports(unsigned long count) {
    errors_wanted += count;
    assert_int_equal(simgpu_errors() - errors_at_start, errors_wanted);
}

static inline void new_context(void) {
    CUcontext context;
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
}

static inline int setup(void **state) {
    (void)state;
    errors_at_start = simgpu_errors();
    errors_wanted = 0;
    ok(cuInit(0));
    new_context();
    return 0;
}

static inline void reset_device(void) {
    ok(cuDevicePrimaryCtxReset(0));
    new_context();
}

static inline int teardown(void **state) {
    (void)state;
    if (simgpu_errors() - errors_at_start != errors_wanted) {
        fprintf(stderr, "the device reported %lu errors, not %lu\n",
                simgpu_errors() - errors_at_start, errors_wanted);
        return -1;
    }
    return cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS ? 0 : -1;
}

#define device_test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static inline size_t free_bytes(void) {
    size_t free_now, total;
    ok(cuMemGetInfo(&free_now, &total));
    return free_now;
}

static inline CUstream new_stream(unsigned flags) {
    CUstream stream;
    ok(cuStreamCreate(&stream, flags));
    return stream;
}

/* The first byte at a device address. */
static inline unsigned char byte_at(CUdeviceptr pointer) {
    unsigned char byte = 0xee;
    ok(cuMemcpyDtoH(&byte, pointer, 1));
    return byte;
}

static inline CUmemAllocationProp device_prop(void) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

static inline CUmemAccessDesc full_access(void) {
    return (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static inline CUmemGenericAllocationHandle new_handle(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop();
    ok(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static inline void map_all(CUdeviceptr base, size_t bytes, CUmemGenericAllocationHandle handle) {
    CUmemAccessDesc access = full_access();
    ok(cuMemMap(base, bytes, 0, handle, 0));
    ok(cuMemSetAccess(base, bytes, &access, 1));
}

static inline CUfunction any_kernel(void) {
    CUmodule module;
    CUfunction function;
    ok(cuModuleLoadData(&module, "image"));
    ok(cuModuleGetFunction(&function, module, "kernel"));
    return function;
}

static inline void launch(CUfunction function, CUstream stream) {
    ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

#endif
