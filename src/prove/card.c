/* card.c: see card.h. NVML, where there is one, knows who else uses the card. */
#include "prove/card.h"

#include "vm/version.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

/* The smallest card that the soak fits on, and how much of it others may use. */
enum { LEAST_MIB = 600, OTHERS_SHARE = 4, OTHERS_MIB = 1024, LARGE_PROCESS_MIB = 512 };

/* --- NVML --- */

struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned instance, compute_instance;
};

enum { MOST_PROCESSES = 64, NVML_SUCCESS = 0 };

typedef int nvml_init(void);
typedef int nvml_by_bus(const char *bus, void **device);
typedef int nvml_processes(void *device, unsigned *count, struct nvml_process *list);

/* Asked before this process has a context: whoever is listed is another one. Compositors are listed
 * as well; they are small. */
static void look_at_processes(struct card *card) {
    struct nvml_process list[MOST_PROCESSES];
    unsigned count = MOST_PROCESSES;
    void *device = NULL, *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml_init *init = library ? (nvml_init *)dlsym(library, "nvmlInit_v2") : NULL;
    nvml_by_bus *by_bus =
        library ? (nvml_by_bus *)dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2") : NULL;
    nvml_processes *processes =
        library ? (nvml_processes *)dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3")
                : NULL;
    if (!init || !by_bus || !processes || init() != NVML_SUCCESS ||
        by_bus(card->bus, &device) != NVML_SUCCESS ||
        processes(device, &count, list) != NVML_SUCCESS || count > MOST_PROCESSES)
        return;
    for (unsigned i = 0; i < count && !card->busy[0]; i++)
        if (list[i].used_bytes != UINT64_MAX && list[i].used_bytes >> 20 >= LARGE_PROCESS_MIB)
            snprintf(card->busy, sizeof card->busy, "process %u uses %llu MiB of the card",
                     list[i].pid, list[i].used_bytes >> 20);
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
    if (card->free_bytes >> 20 < LEAST_MIB)
        snprintf(card->busy, sizeof card->busy, "%zu MiB of the card are free; %d are needed",
                 card->free_bytes >> 20, LEAST_MIB);
    else if (used > card->total_bytes / OTHERS_SHARE && used >> 20 > OTHERS_MIB)
        snprintf(card->busy, sizeof card->busy, "%zu of %zu MiB of the card are in use", used >> 20,
                 card->total_bytes >> 20);
}

bool card_look(int device, struct card *card) {
    if (!describe(device, card)) {
        snprintf(card->busy, sizeof card->busy, "the driver does not tell which card it is");
        return false;
    }
    look_at_processes(card);
    CUresult result = driver_open(device);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemGetInfo_v2(&card->free_bytes, &card->total_bytes);
    if (result != CUDA_SUCCESS)
        snprintf(card->busy, sizeof card->busy, "the card cannot be used: %s",
                 driver_error_name(result));
    else if (!card->busy[0])
        look_at_memory(card);
    return !card->busy[0];
}
