/* nvml_memory.c: see nvml_memory.h. Where no limit is set it must change nothing. */
#include "hook/nvml_memory.h"

#include "base/base.h"
#include "cuda/limit.h"
#include "cuda/real.h"
#include "process/start.h"
#include "track/device.h"

#include <string.h>
#include <strings.h>

enum { SUCCESS = 0 };

/* nvmlMemory_t and nvmlMemory_v2_t, nvmlPciInfo_t. */
struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct place {
    char legacy[16];
    unsigned numbers[5];
    char bus_id[32];
};

typedef int (*memory_t)(void *card, struct memory *out);
typedef int (*memory_v2_t)(void *card, struct memory_v2 *out);
typedef int (*place_t)(void *card, struct place *out);

static struct {
    _Atomic(memory_t) memory;
    _Atomic(memory_v2_t) memory_v2;
    _Atomic(place_t) place;
} real;

/* NVML writes the domain with eight digits, the driver with four. */
static bool is_same(const char *of_nvml, const char *of_driver) {
    size_t longer = strnlen(of_nvml, sizeof((struct place *)0)->bus_id), n = strlen(of_driver);
    return n > 0 && longer >= n && strcasecmp(of_nvml + longer - n, of_driver) == 0;
}

static uint64_t own_bytes(void *card) {
    struct place place;
    place_t find = atomic_load(&real.place);
    if (!recording_is_on() || !find || find(card, &place) != SUCCESS)
        return 0;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        if (device && is_same(place.bus_id, device->out->bus_id))
            return device_own_bytes(device);
    }
    return 0;
}

static void limit(void *card, unsigned long long *total, unsigned long long *free) {
    int64_t bytes = limit_spare(*free, *total, own_bytes(card)).bytes;
    *free = bytes > 0 ? (unsigned long long)bytes : 0;
    *total = limit_total(*total);
}

static int ask(void *card, struct memory *out) {
    int result = atomic_load(&real.memory)(card, out);
    start_read_settings();
    if (result == SUCCESS && limit_is_on()) {
        limit(card, &out->total, &out->free);
        out->used = out->total - out->free;
    }
    return result;
}

static int ask_v2(void *card, struct memory_v2 *out) {
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
    atomic_store(&real.place, (place_t)(uintptr_t)real_ask_next(handle, "nvmlDeviceGetPciInfo_v3"));
    if (second)
        atomic_store(&real.memory_v2, (memory_v2_t)(uintptr_t)found);
    else
        atomic_store(&real.memory, (memory_t)(uintptr_t)found);
    return second ? (void *)(uintptr_t)ask_v2 : (void *)(uintptr_t)ask;
}
