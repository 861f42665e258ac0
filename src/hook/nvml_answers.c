/* nvml_answers.c: see nvml_answers.h. Where no limit is set, and vramgc chose nothing, it must
 * change nothing. */
#include "hook/nvml_answers.h"

#include "base/base.h"
#include "base/nvml.h"
#include "card/reading.h"
#include "cuda/objects.h"
#include "cuda/real.h"
#include "govern/torch.h"
#include "process/start.h"
#include "track/device.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_FABRIC = 0 };

/* Of the second form of the question. */
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

typedef int (*memory_t)(nvml_card card, struct nvml_memory *out);
typedef int (*memory_v2_t)(nvml_card card, struct memory_v2 *out);
typedef int (*pci_t)(nvml_card card, struct nvml_pci *out);
typedef int (*list_t)(nvml_card card, unsigned *count, char *list);

/* nvmlGpuFabricInfo_v2_t up to the member that PyTorch reads; the third form begins like it. */
struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};
typedef int (*fabric_t)(nvml_card card, struct fabric_info *out);

/* How each entry of a list begins. */
struct holder {
    unsigned pid;
    unsigned long long bytes; /* all bits: not available */
};

static struct {
    _Atomic(memory_t) memory;
    _Atomic(memory_v2_t) memory_v2;
    _Atomic(pci_t) pci;
    _Atomic(fabric_t) fabric;
} real;

static uint64_t own_bytes(nvml_card card) {
    const struct nvml nvml = {.pci = atomic_load(&real.pci)};
    char bus_id[sizeof((struct vramgc_device *)0)->bus_id];
    if (!recording_is_on() || !nvml_bus_id(&nvml, card, bus_id, sizeof bus_id))
        return 0;
    for (EACH_DEVICE(device))
        if (strcasecmp(bus_id, device->out->bus_id) == 0)
            return device_own_bytes(device);
    return 0;
}

static void limit_memory(nvml_card card, unsigned long long *total, unsigned long long *free) {
    *free = at_least_0(limit_spare(*free, *total, own_bytes(card)).bytes);
    *total = limit_total(*total);
}

static int ask_memory(nvml_card card, struct nvml_memory *out) {
    int result = atomic_load(&real.memory)(card, out);
    start_read_settings();
    if (result == SUCCESS && limit_is_on()) {
        limit_memory(card, &out->total, &out->free);
        out->used = out->total - out->free;
    }
    return result;
}

static int ask_memory_v2(nvml_card card, struct memory_v2 *out) {
    int result = atomic_load(&real.memory_v2)(card, out);
    start_read_settings();
    if (result == SUCCESS && limit_is_on()) {
        if (limit_total(out->total) < out->total) /* the driver's own part is not in it */
            out->reserved = 0;
        limit_memory(card, &out->total, &out->free);
        out->used = minus_u64(out->total - out->free, out->reserved);
    }
    return result;
}

/* Together they have no more than is said to be used: this process what counts as its own, without
 * the context, and the others what is left. Whose number is another here is one of the others. */
static void cut_list(nvml_card card, char *list, const char *end, size_t entry_bytes) {
    struct nvml_memory told;
    start_read_settings();
    if (atomic_load(&real.memory)(card, &told) != SUCCESS || limit_total(told.total) == told.total)
        return;
    limit_memory(card, &told.total, &told.free);
    uint64_t own = own_bytes(card), others = told.total - told.free;
    for (char *at = list; at < end; at += entry_bytes)
        if (((struct holder *)(void *)at)->pid == (unsigned)getpid())
            others = minus_u64(others, own);
    for (char *at = list; at < end; at += entry_bytes) {
        struct holder *holder = (struct holder *)(void *)at;
        uint64_t *left = holder->pid == (unsigned)getpid() ? &own : &others;
        if (holder->bytes != ~0ull)
            *left -= holder->bytes = min_u64(holder->bytes, *left);
    }
}

/* The entries of the first form have no instances. */
#define FORMS(X, who)                                                                              \
    X(nvmlDeviceGet##who##RunningProcesses, 16)                                                    \
    X(nvmlDeviceGet##who##RunningProcesses_v2, 24)                                                 \
    X(nvmlDeviceGet##who##RunningProcesses_v3, 24)
#define LISTS(X) FORMS(X, Compute) FORMS(X, Graphics) FORMS(X, MPSCompute)

#define X(name, entry_bytes)                                                                       \
    static _Atomic(list_t) real_##name;                                                            \
    static int ask_##name(nvml_card card, unsigned *count, char *list) {                           \
        int result = atomic_load(&real_##name)(card, count, list);                                 \
        if (result == SUCCESS && list)                                                             \
            cut_list(card, list, list + *count * (size_t)(entry_bytes), entry_bytes);              \
        return result;                                                                             \
    }
LISTS(X)
#undef X

static void *list_lookup(const char *name, void *found) {
#define X(form, entry_bytes)                                                                       \
    if (strcmp(name, #form) == 0 && found) {                                                       \
        atomic_store(&real_##form, (list_t)(uintptr_t)found);                                      \
        return (void *)(uintptr_t)ask_##form;                                                      \
    }
    LISTS(X)
#undef X
    return NULL;
}

void *nvml_memory_lookup(void *handle, const char *name) {
    if (LIKELY(strncmp(name, "nvmlDeviceGet", strlen("nvmlDeviceGet")) != 0))
        return NULL;
    void *memory = real_ask_next(handle, "nvmlDeviceGetMemoryInfo");
    void *found = memory ? real_ask_next(handle, name) : NULL;
    if (!found)
        return NULL;
    atomic_store(&real.memory, (memory_t)(uintptr_t)memory);
    atomic_store(&real.pci, (pci_t)(uintptr_t)real_ask_next(handle, "nvmlDeviceGetPciInfo_v3"));
    if (found == memory)
        return (void *)(uintptr_t)ask_memory;
    if (strcmp(name, "nvmlDeviceGetMemoryInfo_v2") != 0)
        return list_lookup(name, found);
    atomic_store(&real.memory_v2, (memory_v2_t)(uintptr_t)found);
    return (void *)(uintptr_t)ask_memory_v2;
}

/* --- is the card part of an NVLink fabric? PyTorch asks only because vramgc chose expandable
 * segments. Cards before Hopper cannot answer, and PyTorch then warns the user, or, with Python's
 * -W error, raises an exception. It is told "not part of any". Nobody else's question is touched,
 * nor one that PyTorch would have asked without vramgc. --- */

static int ask_fabric(nvml_card card, struct fabric_info *out) {
    int result = atomic_load(&real.fabric)(card, out);
    if (result != NOT_SUPPORTED || !out || !alloc_conf_chose_expandable())
        return result;
    out->state = NO_FABRIC;
    return SUCCESS;
}

void *nvml_fabric_lookup(void *handle, const char *name, const void *caller) {
    if (LIKELY(strcmp(name, "nvmlDeviceGetGpuFabricInfoV") != 0) || !objects_in_allocator(caller))
        return NULL;
    void *found = real_ask_next(handle, name);
    if (!found)
        return NULL;
    atomic_store(&real.fabric, (fabric_t)(uintptr_t)found);
    return (void *)(uintptr_t)ask_fabric;
}
