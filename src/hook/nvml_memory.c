/* nvml_memory.c: see nvml_memory.h. Where no limit is set it must change nothing. */
#include "hook/nvml_memory.h"

#include "base/base.h"
#include "base/nvml.h"
#include "cuda/limit.h"
#include "cuda/real.h"
#include "process/start.h"
#include "track/device.h"

#include <string.h>
#include <strings.h>

enum { SUCCESS = 0 };

/* Of the second form of the question. */
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

typedef int (*memory_t)(nvml_card card, struct nvml_memory *out);
typedef int (*memory_v2_t)(nvml_card card, struct memory_v2 *out);
typedef int (*pci_t)(nvml_card card, struct nvml_pci *out);

static struct {
    _Atomic(memory_t) memory;
    _Atomic(memory_v2_t) memory_v2;
    _Atomic(pci_t) pci;
} real;

static uint64_t own_bytes(nvml_card card) {
    const struct nvml nvml = {.pci = atomic_load(&real.pci)};
    char bus_id[sizeof((struct vramgc_device *)0)->bus_id];
    if (!recording_is_on() || !nvml_bus_id(&nvml, card, bus_id, sizeof bus_id))
        return 0;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        if (device && strcasecmp(bus_id, device->out->bus_id) == 0)
            return device_own_bytes(device);
    }
    return 0;
}

static void limit(nvml_card card, unsigned long long *total, unsigned long long *free) {
    *free = at_least_0(limit_spare(*free, *total, own_bytes(card)).bytes);
    *total = limit_total(*total);
}

static int ask(nvml_card card, struct nvml_memory *out) {
    int result = atomic_load(&real.memory)(card, out);
    start_read_settings();
    if (result == SUCCESS && limit_is_on()) {
        limit(card, &out->total, &out->free);
        out->used = out->total - out->free;
    }
    return result;
}

static int ask_v2(nvml_card card, struct memory_v2 *out) {
    int result = atomic_load(&real.memory_v2)(card, out);
    start_read_settings();
    if (result == SUCCESS && limit_is_on()) {
        limit(card, &out->total, &out->free);
        out->used = minus_u64(out->total - out->free, out->reserved);
    }
    return result;
}

void *nvml_memory_lookup(void *handle, const char *name) {
    bool second = strcmp(name, "nvmlDeviceGetMemoryInfo_v2") == 0;
    if (LIKELY(!second && strcmp(name, "nvmlDeviceGetMemoryInfo") != 0))
        return NULL;
    void *found = real_ask_next(handle, name);
    if (!found)
        return NULL;
    atomic_store(&real.pci, (pci_t)(uintptr_t)real_ask_next(handle, "nvmlDeviceGetPciInfo_v3"));
    if (second)
        atomic_store(&real.memory_v2, (memory_v2_t)(uintptr_t)found);
    else
        atomic_store(&real.memory, (memory_t)(uintptr_t)found);
    return second ? (void *)(uintptr_t)ask_v2 : (void *)(uintptr_t)ask;
}
