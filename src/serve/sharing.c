/* sharing.c: see sharing.h. It must leave to the driver whatever does not touch paged memory. */
#include "serve/sharing.h"

#include "base/log.h"
#include "serve/address.h"
#include "track/device.h"
#include "track/recording.h"

static struct { atomic_bool told; } self;

void sharing_not_possible(const char *what) {
    figure_add(&store_file()->process.impossible_calls, 1);
    if (!atomic_exchange(&self.told, true))
        LOG(LOG_WARN,
            "%s is not possible with PyTorch's memory in mode compact; VRAMGC_MODE=flush leaves "
            "that memory to the driver",
            what);
}

void sharing_ipc_failed(uint64_t address) {
    struct address_info place;
    if (address_lookup(address, &place))
        sharing_not_possible("sharing with another process or device");
}

static bool several_devices(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES && count < 2; i++)
        count += device_if_ready(i) != NULL;
    return count > 1;
}

/* The device of an address; -1: host memory, or not known. */
static int device_of(uint64_t address, bool *paged) {
    real_cuPointerGetAttribute_t get = REAL(cuPointerGetAttribute);
    struct address_info place;
    unsigned type = 0;
    int ordinal = -1;
    if (address_lookup(address, &place)) {
        *paged = true;
        return (int)place.device;
    }
    if (!get || get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
        type != CU_MEMORYTYPE_DEVICE ||
        get(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS)
        return -1;
    return ordinal;
}

bool sharing_between_devices(uint64_t to, uint64_t from, int *to_device, int *from_device) {
    bool paged = false;
    if (!recording_is_on() || !several_devices())
        return false;
    *to_device = device_of(to, &paged);
    *from_device = device_of(from, &paged);
    return paged && *to_device >= 0 && *from_device >= 0 && *to_device != *from_device;
}
