/* card.c: see card.h. NVML, where there is one, knows who else uses the card. */
#include "prove/card.h"

#include "base/text.h"
#include "vm/version.h"

#include <dlfcn.h>
#include <stdio.h>

/* The quick soak wants 256 MiB and the rows before it 130 at once; the rest is for what others take
 * meanwhile. An idle desktop has less than OTHERS_MIB; what has more is a program at work. */
enum { LEAST_MIB = 600, OTHERS_SHARE = 4, OTHERS_MIB = 1024, LARGE_PROCESS_MIB = 512 };

/* --- NVML --- */

struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned instance, compute_instance;
};

enum {
    MOST_PROCESSES = 64, /* with more nothing is told, and the free memory decides */
    NVML_SUCCESS = 0
};

struct nvml {
    int (*init)(void);
    int (*by_bus)(const char *bus, void **device);
    int (*processes)(void *device, unsigned *count, struct nvml_process *list);
    int (*display_active)(void *device, int *yes); /* a server has it; may be missing */
    int (*display_mode)(void *device, int *yes);   /* a screen is connected; may be missing */
};

static void *open_nvml(struct nvml *nvml, const char *bus) {
    void *device = NULL, *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
#define FIND(member, symbol) nvml->member = library ? dlsym(library, symbol) : NULL
    FIND(init, "nvmlInit_v2");
    FIND(by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
    FIND(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    FIND(display_active, "nvmlDeviceGetDisplayActive");
    FIND(display_mode, "nvmlDeviceGetDisplayMode");
#undef FIND
    bool there = nvml->init && nvml->by_bus && nvml->init() == NVML_SUCCESS &&
                 nvml->by_bus(bus, &device) == NVML_SUCCESS;
    return there ? device : NULL;
}

/* Asked before this process has a context, so that each process listed is another one. Compositors
 * are listed as well; they are small. */
static void look_at_processes(const struct nvml *nvml, void *device, struct card *card) {
    struct nvml_process list[MOST_PROCESSES], most = {0};
    unsigned count = MOST_PROCESSES;
    if (!nvml->processes || nvml->processes(device, &count, list) != NVML_SUCCESS ||
        count > MOST_PROCESSES)
        return;
    for (unsigned i = 0; i < count; i++)
        if (list[i].used_bytes != UINT64_MAX && list[i].used_bytes > most.used_bytes)
            most = list[i];
    if (most.used_bytes)
        snprintf(card->user, sizeof card->user, "process %u uses %llu MiB of the card", most.pid,
                 most.used_bytes >> 20);
    if (most.used_bytes >> 20 >= LARGE_PROCESS_MIB)
        text_copy(card->busy, sizeof card->busy, card->user);
}

/* A desktop without X has no limit for kernels; under Windows there is one, and often no NVML. */
static bool has_display(const struct nvml *nvml, void *device, CUdevice ordinal) {
    int active = 0, connected = 0, limited = 0;
    if (device && nvml->display_active)
        nvml->display_active(device, &active);
    if (device && nvml->display_mode)
        nvml->display_mode(device, &connected);
    cu.cuDeviceGetAttribute(&limited, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, ordinal);
    return active || connected || limited;
}

static void look_by_nvml(int device, struct card *card) {
    struct nvml nvml;
    void *handle = open_nvml(&nvml, card->bus);
    if (handle)
        look_at_processes(&nvml, handle, card);
    card->display = has_display(&nvml, handle, device);
}

/* --- the driver --- */

static bool describe(int device, struct card *card) {
    CUdevice ordinal;
    CUuuid uuid;
    int version = 0;
    if (cu.cuInit(0) != CUDA_SUCCESS || cu.cuDeviceGet(&ordinal, device) != CUDA_SUCCESS ||
        cu.cuDeviceGetName(card->name, sizeof card->name, ordinal) != CUDA_SUCCESS ||
        cu.cuDeviceGetPCIBusId(card->bus, sizeof card->bus, ordinal) != CUDA_SUCCESS ||
        cu.cuDeviceGetUuid(&uuid, ordinal) != CUDA_SUCCESS ||
        cu.cuDriverGetVersion(&version) != CUDA_SUCCESS)
        return false;
    proof_key(uuid.bytes, version, VM_VERSION, &card->key);
    card->simulated = driver_is_simulated();
    return true;
}

static void look_at_memory(struct card *card) {
    size_t used = card->total_bytes - card->free_bytes;
    size_t least = LEAST_MIB + (card->display ? CARD_SPARE_MIB : 0);
    if (card->free_bytes >> 20 < least) {
        card->full = true;
        snprintf(card->busy, sizeof card->busy, "%zu MiB of the card are free; %zu are needed",
                 card->free_bytes >> 20, least);
    } else if (!card->busy[0] && used > card->total_bytes / OTHERS_SHARE && used >> 20 > OTHERS_MIB)
        snprintf(card->busy, sizeof card->busy, "%zu of %zu MiB of the card are in use", used >> 20,
                 card->total_bytes >> 20);
}

bool card_look(int device, struct card *card) {
    if (!describe(device, card)) {
        snprintf(card->busy, sizeof card->busy, "the driver does not tell which card it is");
        return false;
    }
    look_by_nvml(device, card);
    CUresult result = driver_open(device);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemGetInfo_v2(&card->free_bytes, &card->total_bytes);
    card->full = result == CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        snprintf(card->busy, sizeof card->busy, "the card cannot be used: %s",
                 driver_error_name(result));
    else
        look_at_memory(card);
    return !card->busy[0];
}
