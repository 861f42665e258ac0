/* two_devices.c: memory belongs to the device it was taken on, whichever is current when it is
 * given back; a reset drops that of one device only. Linked with the runtime. */
#include "check.h"

#include "cuda/cuda_api.h"

int main(void) {
    void *first = NULL, *second = NULL;
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&second, 5 * MIB));
    watch(1);
    const struct vramgc_file *file = check_file();
    if (!CHECK(file != NULL))
        return 1;
    CHECK(file->devices[1].stats.held_bytes.current == 5 * MIB);
    CHECK(file->device_count == 2 && !file->devices[0].present);
    OK(cudaSetDevice(0));
    OK(cudaMalloc(&first, 3 * MIB));
    UNCHANGED();
    CHECK(file->devices[0].present == 1);
    CHECK(file->devices[0].stats.held_bytes.current == 3 * MIB);
    OK(cudaFree(second)); /* while device 0 is current */
    EXPECT(.held = -(int64_t)(5 * MIB), .other = -(int64_t)(5 * MIB));
    CHECK(file->devices[0].stats.held_bytes.current == 3 * MIB);
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&second, 7 * MIB));
    OK(cudaDeviceReset());
    EXPECT(.held = -(int64_t)(5 * MIB), .other = -(int64_t)(5 * MIB));
    CHECK(file->devices[0].stats.held_bytes.current == 3 * MIB);
    CHECK(file->devices[0].stats.resets == 0 && file->devices[1].stats.resets == 1);
    OK(cudaSetDevice(0));
    OK(cudaFree(first));
    CHECK(file->devices[0].stats.held_bytes.current == 0);
    CHECK(file->devices[0].stats.held_bytes.peak == 3 * MIB);
    CHECK(file->process.unknown_frees == 0);
    return check_result("two_devices");
}
