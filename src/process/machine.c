/* machine.c: see machine.h. It must not make a context, nor change anything. */
#include "process/machine.h"

#include "base/text.h"
#include "cuda/real.h"

static bool devices_can_map(void) {
    real_cuDeviceGetCount_t get_count = REAL(cuDeviceGetCount);
    real_cuDeviceGetAttribute_t get_attribute = REAL(cuDeviceGetAttribute);
    int count = 0, supported = 0;
    if (!get_count || !get_attribute || get_count(&count) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < count; i++)
        if (get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i) !=
                CUDA_SUCCESS ||
            !supported)
            return false;
    return count > 0;
}

static int driver_version(void) {
    int version = 0;
    real_cuDriverGetVersion_t get_version = REAL(cuDriverGetVersion);
    if (!get_version || get_version(&version) != CUDA_SUCCESS)
        return 0;
    return version;
}

struct mode_machine machine_look(void) {
    int version = driver_version();
    struct mode_machine machine = {
        .driver = version, .maps = devices_can_map(), .proven = proven_look(version)};
    driver_version_read(machine.driver_version, sizeof machine.driver_version);
    vmm_entries_pass_by(machine.interposer, sizeof machine.interposer);
    return machine;
}

const char *machine_objection(char *out, size_t capacity) {
    char interposer[48];
    struct text text = text_in(out, capacity);
    if (!devices_can_map())
        return "a device cannot map memory page by page";
    if (!vmm_entries_pass_by(interposer, sizeof interposer))
        return NULL;
    text_format(&text, "%s answers for the driver, but not for cuMemCreate", interposer);
    return out;
}
