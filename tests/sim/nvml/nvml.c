/* Stand-in for NVML: what PyTorch and monitoring tools ask of libnvidia-ml.so.1 about the simulated
 * device. It must not initialise CUDA (PyTorch counts devices here precisely so that it can fork
 * afterwards): the device's shape comes from the same knobs that the driver reads, and memory use
 * from the driver only where this process uses it already. Other processes have simulated devices
 * of their own: only those of SIMGPU_OTHERS, and that share a card by SIMGPU_CARD, are seen.
 * Signatures and numbers are those of the public nvml.h. */
#include "nvml.h"

#include "../driver/card_file.h"
#include "../driver/config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct memory_info {
    unsigned long long total, free, used;
};

struct memory_info_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct process_info_v1 {
    unsigned pid;
    unsigned long long used_bytes;
};

struct utilization_sample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
};

struct process_info {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

static struct {
    pthread_mutex_t lock;
    unsigned initialised;
    struct config config;
    struct device devices[MAX_DEVICES];
} nvml = {.lock = PTHREAD_MUTEX_INITIALIZER};

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&nvml.lock);
    if (nvml.initialised++ == 0) {
        config_read(&nvml.config);
        for (unsigned i = 0; i < MAX_DEVICES; i++)
            nvml.devices[i].index = i;
    }
    pthread_mutex_unlock(&nvml.lock);
    return NVML_SUCCESS;
}

EXPORT int nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

EXPORT int nvmlInit(void) {
    return nvmlInitWithFlags(0);
}

EXPORT int nvmlShutdown(void) {
    pthread_mutex_lock(&nvml.lock);
    int result = nvml.initialised ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (nvml.initialised)
        nvml.initialised--;
    pthread_mutex_unlock(&nvml.lock);
    return result;
}

int check_device(const struct device *device, const void *out) {
    if (!nvml.initialised)
        return NVML_ERROR_UNINITIALIZED;
    if (device < nvml.devices || device >= nvml.devices + nvml.config.devices || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(int result) {
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    default:
        return "Unknown Error";
    }
}

static int copy_text(char *out, unsigned size, const char *text) {
    if (!out || strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

/* --- system --- */

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    if (!nvml.initialised)
        return NVML_ERROR_UNINITIALIZED;
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = nvml.config.driver_version;
    return NVML_SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *version) {
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return nvml.initialised ? copy_text(version, size, "simulated") : NVML_ERROR_UNINITIALIZED;
}

EXPORT int nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    return nvml.initialised ? copy_text(version, size, "simulated") : NVML_ERROR_UNINITIALIZED;
}

/* --- finding devices --- */

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!nvml.initialised)
        return NVML_ERROR_UNINITIALIZED;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned)nvml.config.devices;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCount(unsigned *count) {
    return nvmlDeviceGetCount_v2(count);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    if (!nvml.initialised)
        return NVML_ERROR_UNINITIALIZED;
    if (!device || index >= (unsigned)nvml.config.devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &nvml.devices[index];
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, struct device **device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* The driver puts device i on bus i + 1. */
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device) {
    unsigned domain = 0;
    unsigned bus = 0;
    if (!nvml.initialised)
        return NVML_ERROR_UNINITIALIZED;
    if (!bus_id || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(bus_id, "%x:%x:", &domain, &bus) != 2)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (bus < 1 || bus > (unsigned)nvml.config.devices)
        return NVML_ERROR_NOT_FOUND;
    *device = &nvml.devices[bus - 1];
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByPciBusId(const char *bus_id, struct device **device) {
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

/* The driver's UUID is 16 bytes of text that end in the device's index; tools write UUIDs as
 * GPU-8-4-4-4-12 digits. */
static void write_uuid(unsigned index, char *text, size_t size) {
    unsigned char b[16];
    memcpy(b, "SIMULATEDGPU-000", sizeof b);
    b[15] = (unsigned char)(b[15] + index);
    snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

EXPORT int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned size) {
    int result = check_device(device, uuid);
    char text[48];
    if (result != NVML_SUCCESS)
        return result;
    write_uuid(device->index, text, sizeof text);
    return copy_text(uuid, size, text);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device) {
    char text[48];
    if (!nvml.initialised)
        return NVML_ERROR_UNINITIALIZED;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < (unsigned)nvml.config.devices; i++) {
        write_uuid(i, text, sizeof text);
        if (strcmp(text, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2(i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT int nvmlDeviceGetIndex(struct device *device, unsigned *index) {
    int result = check_device(device, index);
    if (result == NVML_SUCCESS)
        *index = device->index;
    return result;
}

EXPORT int nvmlDeviceGetMinorNumber(struct device *device, unsigned *minor) {
    return nvmlDeviceGetIndex(device, minor);
}

EXPORT int nvmlDeviceGetName(struct device *device, char *name, unsigned size) {
    int result = check_device(device, name);
    char text[32];
    if (result != NVML_SUCCESS)
        return result;
    snprintf(text, sizeof text, "Simulated GPU %u", device->index);
    return copy_text(name, size, text);
}

EXPORT int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci_info *info) {
    int result = check_device(device, info);
    if (result != NVML_SUCCESS)
        return result;
    memset(info, 0, sizeof *info);
    info->bus = device->index + 1;
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "0000:%02X:00.0", info->bus);
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
    int result = check_device(device, major && minor ? major : NULL);
    if (result != NVML_SUCCESS)
        return result;
    *major = nvml.config.cc_major;
    *minor = nvml.config.cc_minor;
    return NVML_SUCCESS;
}

/* --- memory: what the driver in this process has given; nothing before it is initialised --- */

typedef size_t used_fn(int device);

static unsigned long long others_bytes(unsigned index) {
    return nvml.config.others_bytes + card_file_others_bytes((int)index);
}

/* Bytes of the device that this process uses, by the driver's own books: an interposer in front of
 * cuMemGetInfo does not stand in front of NVML. */
static unsigned long long used_bytes(unsigned index) {
    enum card_state state = CARD_RUNNING;
    if (card_file_state(getpid(), &state) && state == CARD_PARKED)
        return others_bytes(index);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    used_fn *used = driver ? (used_fn *)(uintptr_t)dlsym(driver, "simgpu_used_bytes") : NULL;
    unsigned long long bytes = used ? used((int)index) : others_bytes(index);
    if (driver)
        dlclose(driver);
    return bytes;
}

static unsigned long long used_by_this_process(unsigned index) {
    unsigned long long used = used_bytes(index), others = others_bytes(index);
    return used > others ? used - others : 0;
}

/* SIMGPU_UNDER_WAY=MIB: at the first two questions a call of another program is under way, which
 * has that memory already, and has not returned. */
static unsigned long long under_way_bytes(void) {
    static unsigned questions;
    const char *mib = getenv("SIMGPU_UNDER_WAY");
    return mib && questions++ < 2 ? strtoull(mib, NULL, 10) << 20 : 0;
}

/* SIMGPU_RESERVED=MIB: so much the driver has beside what CUDA knows; the second form tells it
 * apart. */
static unsigned long long reserved_bytes(void) {
    const char *mib = getenv("SIMGPU_RESERVED");
    return mib ? strtoull(mib, NULL, 10) << 20 : 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(struct device *device, struct memory_info *info) {
    int result = check_device(device, info);
    if (result != NVML_SUCCESS)
        return result;
    info->total = nvml.config.mem_bytes + reserved_bytes();
    info->used = used_bytes(device->index) + under_way_bytes() + reserved_bytes();
    info->free = info->total - info->used;
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_info_v2 *info) {
    struct memory_info plain = {0};
    int result = check_device(device, info);
    if (result == NVML_SUCCESS)
        result = nvmlDeviceGetMemoryInfo(device, &plain);
    if (result != NVML_SUCCESS)
        return result;
    info->total = plain.total;
    info->reserved = reserved_bytes();
    info->free = plain.free;
    info->used = plain.used - info->reserved;
    return NVML_SUCCESS;
}

enum { MAX_USERS = 1 + MAX_OTHERS + MAX_CARD_USERS };

/* This process, if it uses the device, and those of SIMGPU_OTHERS and SIMGPU_CARD. The caller's
 * array is described by its element's size, which grew in version 2. */
static int list_processes(struct device *device, unsigned *count, void *infos, size_t element) {
    int result = check_device(device, count);
    if (result != NVML_SUCCESS)
        return result;
    struct card_user users[MAX_CARD_USERS];
    size_t user_count = card_file_others((int)device->index, users);
    struct process_info all[MAX_USERS] = {
        {.pid = (unsigned)getpid(), .used_bytes = used_by_this_process(device->index)}};
    unsigned room = *count, there = all[0].used_bytes ? 1 : 0;
    for (unsigned i = 0; i < MAX_OTHERS && nvml.config.others[i].bytes; i++)
        all[there++] = (struct process_info){.pid = nvml.config.others[i].pid,
                                             .used_bytes = nvml.config.others[i].bytes};
    for (size_t i = 0; i < user_count; i++)
        all[there++] =
            (struct process_info){.pid = (unsigned)users[i].pid, .used_bytes = users[i].bytes};
    *count = there;
    if (there > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    if (there && !infos)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < there; i++)
        memcpy((char *)infos + i * element, &all[i], element);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses(struct device *device, unsigned *count,
                                                struct process_info_v1 *infos) {
    return list_processes(device, count, infos, sizeof *infos);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(struct device *device, unsigned *count,
                                                   struct process_info *infos) {
    return list_processes(device, count, infos, sizeof *infos);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count,
                                                   struct process_info *infos) {
    return list_processes(device, count, infos, sizeof *infos);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *device, unsigned *count,
                                                    struct process_info *infos) {
    (void)infos;
    int result = check_device(device, count);
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

/* --- sensors: an idle card at room temperature, or one as busy as SIMGPU_BUSY says --- */

EXPORT int nvmlDeviceGetUtilizationRates(struct device *device, struct utilization *rates) {
    const char *percent = getenv("SIMGPU_BUSY");
    int result = check_device(device, rates);
    if (result == NVML_SUCCESS && percent && strcmp(percent, "none") == 0)
        result = NVML_ERROR_NOT_SUPPORTED; /* as of a part of a card (MIG) */
    if (result == NVML_SUCCESS)
        *rates = (struct utilization){percent ? (unsigned)atoi(percent) : 0, 0};
    return result;
}

/* All processes of the card together are as busy as it is, each with the same share. */
EXPORT int nvmlDeviceGetProcessUtilization(struct device *device, struct utilization_sample *out,
                                           unsigned *count, unsigned long long since_us) {
    struct utilization rates = {0};
    struct process_info users[MAX_USERS];
    unsigned there = MAX_USERS, room = count ? *count : 0;
    int result = nvmlDeviceGetUtilizationRates(device, &rates);
    if (result == NVML_SUCCESS)
        result = list_processes(device, count ? &there : NULL, users, sizeof *users);
    unsigned long long now_us = (unsigned long long)time(NULL) * 1000000;
    if (result == NVML_SUCCESS && (rates.gpu == 0 || there == 0 || since_us > now_us))
        result = NVML_ERROR_NOT_FOUND;
    if (result != NVML_SUCCESS)
        return result;
    *count = there;
    if (!out || there > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < there; i++)
        out[i] = (struct utilization_sample){users[i].pid, now_us, rates.gpu / there, 0, 0, 0};
    return NVML_SUCCESS;
}

int answer(struct device *device, unsigned *out, unsigned value) {
    int result = check_device(device, out);
    if (result == NVML_SUCCESS)
        *out = value;
    return result;
}

/* SIMGPU_MIG=1: the card is divided. */
EXPORT int nvmlDeviceGetMigMode(struct device *device, unsigned *now, unsigned *after_a_reset) {
    answer(device, after_a_reset, 0);
    return answer(device, now, getenv("SIMGPU_MIG") != NULL);
}

/* SIMGPU_MPS: the process that has the card through MPS. */
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *device, unsigned *count,
                                                      struct process_info *infos) {
    const char *client = getenv("SIMGPU_MPS");
    if (client && infos)
        infos->pid = (unsigned)atoi(client);
    return answer(device, count, client != NULL);
}

EXPORT int nvmlDeviceGetDisplayActive(struct device *device, unsigned *active) {
    return answer(device, active, nvml.config.display == DISPLAY_NVML);
}
