/* Memory that lies with the host, that other processes see, or that another device uses: each with
 * the rules of a card. Settings are read once in a process, so all cases run in children; this
 * process itself never uses the device. */
#include "test_driver.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define IPC_CAPABLE CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE

/* Assertions end the child. */
static void start(unsigned long reports) {
    errors_wanted = reports;
    ok(cuInit(0));
    new_context();
}

static void finish(void) {
    assert_int_equal(simgpu_errors(), errors_wanted);
    _exit(0);
}

static int status_of(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

/* A failing assertion jumps back into cmocka's loop of the child: it must not go on there. */
#define IN_CHILD(body)                                                                             \
    do {                                                                                           \
        pid_t child_ = fork();                                                                     \
        if (child_ == 0) {                                                                         \
            signal(SIGSEGV, SIG_DFL);                                                              \
            body;                                                                                  \
            finish();                                                                              \
        }                                                                                          \
        assert_int_equal(status_of(child_), 0);                                                    \
    } while (0)

static CUmemAllocationProp host_prop(CUmemLocationType type) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = type}};
}

static CUmemGenericAllocationHandle host_handle(size_t bytes) {
    CUmemAllocationProp prop = host_prop(CU_MEM_LOCATION_TYPE_HOST_NUMA);
    CUmemGenericAllocationHandle handle;
    ok(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr base;
    ok(cuMemAddressReserve(&base, bytes, 0, 0, 0));
    return base;
}

/* ---- memory that lies with the host ---- */

static void use_host_memory(void) {
    start(0);
    size_t before = free_bytes(), grain;
    CUmemAllocationProp prop = host_prop(CU_MEM_LOCATION_TYPE_HOST_NUMA);
    CUmemGenericAllocationHandle handle = host_handle(6 * MIB);
    CUdeviceptr base = reserve(6 * MIB);
    ok(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(grain, 2 * MIB);
    map_all(base, 6 * MIB, handle);
    assert_int_equal(free_bytes(), before);
    assert_int_equal(simgpu_host_bytes(), 6 * MIB);
    ok(simgpu_touch(NULL, base + MIB, 4 * MIB, 7));
    ok(simgpu_expect(NULL, base + MIB, 4 * MIB, 7));
    assert_int_equal(byte_at(base + 4 * MIB), 7);
    ok(cuMemUnmap(base, 6 * MIB)); /* Its content stays with the handle. */
    map_all(base, 6 * MIB, handle);
    assert_int_equal(byte_at(base + 4 * MIB), 7);
    ok(cuMemRelease(handle));
    assert_int_equal(simgpu_host_bytes(), 6 * MIB);
    ok(cuMemUnmap(base, 6 * MIB));
    assert_int_equal(simgpu_host_bytes(), 0);
}

static void host_memory_is_not_the_devices(void **state) {
    (void)state;
    IN_CHILD(use_host_memory());
}

static void use_without_access(void) {
    start(1);
    CUdeviceptr base = reserve(2 * MIB);
    ok(cuMemMap(base, 2 * MIB, 0, host_handle(2 * MIB), 0));
    ok(simgpu_use(NULL, base, 16, 0));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void describe_host_memory(void) {
    start(0);
    CUdeviceptr base = reserve(2 * MIB);
    unsigned type;
    int ordinal = 5;
    map_all(base, 2 * MIB, host_handle(2 * MIB));
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    ok(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base));
    assert_int_equal(ordinal, CU_DEVICE_CPU);
}

static void a_device_has_to_be_let_in(void **state) {
    (void)state;
    IN_CHILD(use_without_access());
    IN_CHILD(describe_host_memory());
}

static CUmemAccessDesc host_access(void) {
    return (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_HOST_NUMA},
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static void let_the_cpu_in(void) {
    start(0);
    CUdeviceptr base = reserve(4 * MIB);
    CUmemAccessDesc access = host_access();
    volatile unsigned char *byte = (unsigned char *)base;
    map_all(base, 4 * MIB, host_handle(4 * MIB));
    ok(cuMemsetD8(base, 9, 4 * MIB));
    ok(cuCtxSynchronize());
    ok(cuMemSetAccess(base, 4 * MIB, &access, 1));
    assert_int_equal(byte[3 * MIB], 9);
    byte[3 * MIB] = 4;
    assert_int_equal(byte_at(base + 3 * MIB), 4);
    ok(cuMemUnmap(base, 4 * MIB));
    _exit(byte[0]); /* Not the CPU's any more. */
}

static void cpu_without_access(void) {
    start(0);
    CUdeviceptr base = reserve(2 * MIB);
    map_all(base, 2 * MIB, host_handle(2 * MIB));
    _exit(*(volatile unsigned char *)base);
}

static void the_cpu_has_to_be_let_in_too(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            i == 0 ? let_the_cpu_in() : cpu_without_access();
        }
        assert_int_equal(status_of(child), 200 + SIGSEGV);
    }
}

static void ask_for_what_is_refused(void) {
    start(0);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base = reserve(2 * MIB);
    CUmemAccessDesc access = host_access();
    CUmemAllocationProp prop = host_prop(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
    fails(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = host_prop(CU_MEM_LOCATION_TYPE_HOST_NUMA);
    fails(cuMemCreate(&handle, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop.location.id = 1; /* There is no such node. */
    fails(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = host_prop(CU_MEM_LOCATION_TYPE_HOST);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    fails(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    map_all(base, 2 * MIB, new_handle(2 * MIB)); /* The device's own memory. */
    fails(cuMemSetAccess(base, 2 * MIB, &access, 1), CUDA_ERROR_INVALID_VALUE);
}

static void locations_have_rules(void **state) {
    (void)state;
    IN_CHILD(ask_for_what_is_refused());
}

static void create_on_host(CUmemLocationType type, CUresult expected, int supported) {
    start(0);
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = host_prop(type);
    int value = 9;
    fails(cuMemCreate(&handle, 2 * MIB, &prop, 0), expected);
    ok(cuDeviceGetAttribute(&value,
                            CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    assert_int_equal(value, supported);
}

static void create_with(const char *name, const char *value, CUmemLocationType type,
                        CUresult expected, int supported) {
    setenv(name, value, 1);
    IN_CHILD(create_on_host(type, expected, supported));
    unsetenv(name);
}

static void drivers_without_it_say_so(void **state) {
    (void)state;
    const CUmemLocationType node = CU_MEM_LOCATION_TYPE_HOST_NUMA, any = CU_MEM_LOCATION_TYPE_HOST;
    create_with("SIMGPU_HOST_VMM", "0", node, CUDA_ERROR_NOT_SUPPORTED, 0);
    create_with("SIMGPU_DRIVER", "12010", node, CUDA_ERROR_INVALID_VALUE, 0);
    create_with("SIMGPU_DRIVER", "12080", node, CUDA_SUCCESS, 1);
    create_with("SIMGPU_DRIVER", "12080", any, CUDA_ERROR_INVALID_VALUE, 1);
    create_with("SIMGPU_DRIVER", "13000", any, CUDA_SUCCESS, 1);
    create_with("SIMGPU_HOST_MEM", "1MiB", node, CUDA_ERROR_OUT_OF_MEMORY, 1);
}

/* ---- other processes ---- */

static void give_away(int out, int back) {
    start(0);
    CUdeviceptr large, small;
    CUipcMemHandle handles[2];
    unsigned capable = 0;
    char byte;
    ok(cuMemAlloc(&large, 5 * MIB));
    ok(cuMemAlloc(&small, 512));
    ok(cuMemAlloc(&small, 1024)); /* Not the first in its page. */
    ok(cuMemsetD8(large, 11, 5 * MIB));
    ok(cuMemsetD8(small, 12, 1024));
    ok(cuPointerGetAttribute(&capable, IPC_CAPABLE, large));
    assert_int_equal(capable, 1);
    ok(cuCtxSynchronize());
    ok(cuIpcGetMemHandle(&handles[0], large));
    ok(cuIpcGetMemHandle(&handles[1], small));
    assert_int_equal(write(out, handles, sizeof handles), sizeof handles);
    assert_int_equal(read(back, &byte, 1), 1);
    assert_int_equal(byte_at(large + 4 * MIB), 21); /* What the other wrote. */
    ok(cuMemFree(large));
    ok(cuMemFree(small));
    ok(cuMemAlloc(&large, 5 * MIB));
    ok(cuMemsetD8(large, 3, 5 * MIB));
    assert_int_equal(byte_at(large + 4 * MIB), 3);
}

static void take_over(int in, int answer) {
    start(1);
    CUipcMemHandle handles[2];
    CUdeviceptr large, small, again, base;
    size_t bytes, before = free_bytes();
    assert_int_equal(read(in, handles, sizeof handles), sizeof handles);
    fails(cuIpcOpenMemHandle(&large, handles[0], 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuIpcOpenMemHandle(&large, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    ok(cuIpcOpenMemHandle(&again, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    ok(cuIpcOpenMemHandle(&small, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    assert_int_equal(large, again);
    assert_int_equal(before, free_bytes());
    assert_int_equal(byte_at(large + 5 * MIB - 1), 11);
    assert_int_equal(byte_at(small + 1023), 12);
    ok(cuMemGetAddressRange(&base, &bytes, large + MIB));
    assert_int_equal(base, large);
    assert_int_equal(bytes, 5 * MIB);
    ok(simgpu_touch(NULL, large + 4 * MIB, 16, 21));
    ok(cuCtxSynchronize());
    ok(cuIpcCloseMemHandle(large));
    assert_int_equal(byte_at(large), 11); /* It was opened twice. */
    ok(cuIpcCloseMemHandle(large));
    ok(cuIpcCloseMemHandle(small));
    fails(cuIpcCloseMemHandle(large), CUDA_ERROR_INVALID_VALUE);
    memset(&handles[0], 0, sizeof handles[0]);
    fails(cuIpcOpenMemHandle(&large, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
          CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(write(answer, "", 1), 1);
}

static void other_processes_see_plain_memory(void **state) {
    (void)state;
    int there[2], back[2];
    assert_int_equal(pipe(there) | pipe(back), 0);
    pid_t giver = fork();
    if (giver == 0) {
        give_away(there[1], back[0]);
        finish();
    }
    pid_t taker = fork();
    if (taker == 0) {
        take_over(there[0], back[1]);
        finish();
    }
    assert_int_equal(status_of(taker), 0);
    assert_int_equal(status_of(giver), 0);
}

static void ask_for_handles(void) {
    start(0);
    CUipcMemHandle handle;
    CUdeviceptr plain, pooled, mapped = reserve(2 * MIB), opened;
    unsigned capable = 1;
    void *host;
    map_all(mapped, 2 * MIB, new_handle(2 * MIB));
    ok(cuMemAllocAsync(&pooled, 2 * MIB, NULL));
    ok(cuMemHostAlloc(&host, 4096, 0));
    ok(cuMemAlloc(&plain, 2 * MIB));
    fails(cuIpcGetMemHandle(&handle, mapped), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcGetMemHandle(&handle, pooled), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcGetMemHandle(&handle, (CUdeviceptr)host), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcGetMemHandle(&handle, plain + 512), CUDA_ERROR_INVALID_VALUE);
    ok(cuPointerGetAttribute(&capable, IPC_CAPABLE, mapped));
    assert_int_equal(capable, 0);
    ok(cuIpcGetMemHandle(&handle, plain));
    fails(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
          CUDA_ERROR_INVALID_CONTEXT); /* Not in the process that made it. */
}

static void other_memory_is_not_shared(void **state) {
    (void)state;
    IN_CHILD(ask_for_handles());
}

static void export_and_import(void) {
    start(0);
    CUmemGenericAllocationHandle plain = new_handle(2 * MIB), handle, second;
    CUmemAllocationProp prop = device_prop();
    CUdeviceptr base = reserve(4 * MIB);
    int file;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    ok(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    fails(cuMemExportToShareableHandle(&file, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          CUDA_ERROR_INVALID_VALUE);
    map_all(base, 2 * MIB, handle);
    ok(cuMemsetD8(base, 5, 2 * MIB));
    ok(cuCtxSynchronize());
    ok(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    ok(cuMemImportFromShareableHandle(&second, (void *)(intptr_t)file,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(file);
    map_all(base + 2 * MIB, 2 * MIB, second);
    assert_int_equal(byte_at(base + 3 * MIB), 5);
    ok(simgpu_touch(NULL, base + 3 * MIB, 16, 6));
    assert_int_equal(byte_at(base + MIB), 6);
    ok(cuMemRelease(handle));
    ok(cuMemRelease(second));
}

static void handles_travel_as_files(void **state) {
    (void)state;
    IN_CHILD(export_and_import());
}

/* ---- other devices ---- */

static CUcontext second_context(void) {
    CUcontext second;
    ok(cuDevicePrimaryCtxRetain(&second, 1));
    return second;
}

/* Memory mapped for device 0, used on device 1: peer access does not let it in, cuMemSetAccess
 * does; a copy between peers asks neither. */
static void use_a_mapping(int enable, int grant, int between, CUresult expected) {
    start(expected == CUDA_SUCCESS ? 0 : 1);
    CUcontext first, second = second_context();
    CUdeviceptr base = reserve(2 * MIB), there;
    CUmemAccessDesc access = full_access();
    ok(cuCtxGetCurrent(&first));
    map_all(base, 2 * MIB, new_handle(2 * MIB));
    ok(cuCtxSetCurrent(second));
    ok(cuMemAlloc(&there, 2 * MIB));
    if (enable)
        ok(cuCtxEnablePeerAccess(first, 0));
    access.location.id = 1;
    if (grant)
        ok(cuMemSetAccess(base, 2 * MIB, &access, 1));
    if (between)
        ok(cuMemcpyPeerAsync(there, second, base, first, MIB, NULL));
    else
        ok(cuMemcpyDtoDAsync(there, base, MIB, NULL));
    fails(cuCtxSynchronize(), expected);
    if (expected == CUDA_SUCCESS && grant) {
        ok(simgpu_use(NULL, base, 16, 1));
        ok(cuCtxSynchronize());
    }
}

static void mappings_ask_for_access_of_their_own(void **state) {
    (void)state;
    setenv("SIMGPU_DEVICES", "2", 1);
    IN_CHILD(use_a_mapping(1, 0, 0, CUDA_ERROR_ILLEGAL_ADDRESS));
    IN_CHILD(use_a_mapping(0, 1, 0, CUDA_SUCCESS));
    IN_CHILD(use_a_mapping(0, 0, 0, CUDA_ERROR_ILLEGAL_ADDRESS));
    IN_CHILD(use_a_mapping(0, 0, 1, CUDA_SUCCESS));
    unsetenv("SIMGPU_DEVICES");
}

static void be_no_peers(void) {
    start(0);
    CUcontext first, second = second_context();
    CUdeviceptr base = reserve(4 * MIB), plain, there;
    CUmemAccessDesc access = full_access();
    int can = 1;
    ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 0);
    ok(cuCtxGetCurrent(&first));
    fails(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    map_all(base, 2 * MIB, new_handle(2 * MIB));
    access.location.id = 1;
    fails(cuMemSetAccess(base, 2 * MIB, &access, 1), CUDA_ERROR_INVALID_DEVICE);
    map_all(base + 2 * MIB, 2 * MIB, host_handle(2 * MIB));
    ok(cuMemSetAccess(base + 2 * MIB, 2 * MIB, &access, 1)); /* The host's is everybody's. */
    ok(cuMemAlloc(&plain, MIB));
    ok(cuCtxSetCurrent(second));
    ok(cuMemAlloc(&there, MIB));
    ok(cuMemcpyDtoD(there, plain, MIB)); /* Through the host. */
    ok(simgpu_use(NULL, base + 2 * MIB, 16, 1));
    ok(cuCtxSynchronize());
}

static void devices_may_be_no_peers(void **state) {
    (void)state;
    setenv("SIMGPU_DEVICES", "2", 1);
    setenv("SIMGPU_PEER", "0", 1);
    IN_CHILD(be_no_peers());
    unsetenv("SIMGPU_PEER");
    unsetenv("SIMGPU_DEVICES");
}

int main(void) {
    setenv("SIMGPU_MEM", "1GiB", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory_is_not_the_devices),
        cmocka_unit_test(a_device_has_to_be_let_in),
        cmocka_unit_test(the_cpu_has_to_be_let_in_too),
        cmocka_unit_test(locations_have_rules),
        cmocka_unit_test(drivers_without_it_say_so),
        cmocka_unit_test(other_processes_see_plain_memory),
        cmocka_unit_test(other_memory_is_not_shared),
        cmocka_unit_test(handles_travel_as_files),
        cmocka_unit_test(mappings_ask_for_access_of_their_own),
        cmocka_unit_test(devices_may_be_no_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
