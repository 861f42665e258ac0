/* card.c: see card.h. NVML, where there is one, knows who else uses the card. */
#include "prove/card.h"

#include "base/nvml.h"
#include "base/text.h"
#include "vm/version.h"

#include <dlfcn.h>
#include <stdio.h>

/* The quick soak wants 256 MiB and the rows before it 130 at once; the rest is for what others take
 * meanwhile. An idle desktop has less than OTHERS_MIB; what has more is a program at work. */
enum { LEAST_MIB = 600, OTHERS_SHARE = 4, OTHERS_MIB = 1024, LARGE_PROCESS_MIB = 512 };

/* --- NVML --- */

/* Asked before this process has a context, so that each process listed is another one. Compositors
 * are listed as well; they are small. */
static void look_at_users(const struct nvml *nvml, nvml_card handle, struct prove_card *card) {
    struct nvml_users users;
    struct nvml_user most = {0};
    nvml_users(nvml, handle, &users);
    for (size_t i = 0; i < users.count; i++)
        if (users.list[i].bytes > most.bytes)
            most = users.list[i];
    uint64_t most_mib = most.bytes >> 20;
    if (most.bytes)
        snprintf(card->user, sizeof card->user, "process %llu uses %llu MiB of the card",
                 (unsigned long long)most.pid, (unsigned long long)most_mib);
    card->others = most_mib >= LARGE_PROCESS_MIB;
    if (card->others)
        text_copy(card->busy, sizeof card->busy, card->user);
}

/* A desktop without X has no limit for kernels; under Windows there is one, and often no NVML. */
static void look_by_nvml(int device, struct prove_card *card) {
    struct nvml nvml;
    int limited = 0;
    nvml_card handle = nvml_open(&nvml, dlsym) ? nvml_by_bus(&nvml, card->bus) : NULL;
    if (handle)
        look_at_users(&nvml, handle, card);
    cu.cuDeviceGetAttribute(&limited, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, device);
    card->display = nvml_has_display(&nvml, handle) || limited;
}

/* --- the driver --- */

static bool describe_card(int device, struct prove_card *card) {
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

static void look_at_memory(struct prove_card *card) {
    size_t used = card->total_bytes - card->free_bytes;
    size_t least = LEAST_MIB + (card->display ? CARD_SPARE_MIB : 0);
    if (card->free_bytes >> 20 < least) {
        card->full = card->others = true;
        snprintf(card->busy, sizeof card->busy, "%zu MiB of the card are free; %zu are needed",
                 card->free_bytes >> 20, least);
    } else if (!card->busy[0] && used > card->total_bytes / OTHERS_SHARE &&
               used >> 20 > OTHERS_MIB) {
        card->others = true;
        snprintf(card->busy, sizeof card->busy, "%zu of %zu MiB of the card are in use", used >> 20,
                 card->total_bytes >> 20);
    }
}

bool card_look(int device, struct prove_card *card) {
    if (!describe_card(device, card)) {
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
