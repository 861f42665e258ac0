/* nvml.c: see nvml.h. The library is opened with RTLD_LOCAL. It must make no context. */
#include "base/nvml.h"

#include "base/base.h"
#include "base/text.h"

#include <dlfcn.h>
#include <string.h>

enum { SUCCESS = 0, NOT_FOUND = 6 };

/* nvmlProcessInfo_t as of the second form of the calls; the first has another layout, and nothing
 * is asked by that. */
struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* all bits: not available */
    unsigned gpu_instance, compute_instance;
};

/* A card has a few processes, and notes each a few times a second. */
enum { NVML_SAMPLES = 256, BUSY_SECONDS = 3 };

/* nvmlProcessUtilizationSample_t. */
struct nvml_sample {
    unsigned pid;
    unsigned long long time_us;                      /* of CLOCK_REALTIME */
    unsigned computing, copying, encoding, decoding; /* percent */
};

/* nvmlPciInfo_t. */
struct nvml_pci {
    char older_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32]; /* the domain has eight digits, where CUDA writes four */
};

bool nvml_open(struct nvml *nvml, void *(*lookup)(void *library, const char *symbol)) {
    *nvml = (struct nvml){0};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(void) = library ? lookup(library, "nvmlInit_v2") : NULL;
    if (!init || init() != SUCCESS)
        return false;
#define FUNCTION(name, symbol, parameters) nvml->name = lookup(library, symbol);
#include "base/nvml.def"
#undef FUNCTION
    if (!nvml->compute)
        nvml->compute = lookup(library, "nvmlDeviceGetComputeRunningProcesses_v2");
    if (!nvml->graphics)
        nvml->graphics = lookup(library, "nvmlDeviceGetGraphicsRunningProcesses_v2");
    return true;
}

void nvml_close(const struct nvml *nvml) {
    if (nvml->shutdown)
        nvml->shutdown();
}

nvml_card nvml_by_bus(const struct nvml *nvml, const char *bus_id) {
    nvml_card card = NULL;
    return nvml->by_bus && nvml->by_bus(bus_id, &card) == SUCCESS ? card : NULL;
}

nvml_card nvml_by_number(const struct nvml *nvml, unsigned number) {
    nvml_card card = NULL;
    return nvml->by_number && nvml->by_number(number, &card) == SUCCESS ? card : NULL;
}

unsigned nvml_count(const struct nvml *nvml) {
    unsigned count = 0;
    return nvml->count && nvml->count(&count) == SUCCESS ? count : 0;
}

bool nvml_memory(const struct nvml *nvml, nvml_card card, struct nvml_memory *out) {
    return card && nvml->memory && nvml->memory(card, out) == SUCCESS;
}

bool nvml_name(const struct nvml *nvml, nvml_card card, char *name, size_t bytes) {
    return card && nvml->name && nvml->name(card, name, (unsigned)bytes) == SUCCESS;
}

bool nvml_uuid(const struct nvml *nvml, nvml_card card, char *uuid, size_t bytes) {
    return card && nvml->uuid && nvml->uuid(card, uuid, (unsigned)bytes) == SUCCESS;
}

bool nvml_bus_id(const struct nvml *nvml, nvml_card card, char *bus_id, size_t bytes) {
    struct nvml_pci pci = {0};
    if (!card || !nvml->pci || nvml->pci(card, &pci) != SUCCESS)
        return false;
    size_t length = strnlen(pci.bus_id, sizeof pci.bus_id - 1), shorter = strlen("0000:01:00.0");
    text_copy(bus_id, bytes, pci.bus_id + minus_u64(length, shorter));
    return true;
}

bool nvml_has_display(const struct nvml *nvml, nvml_card card) {
    int active = 0;
    if (card && nvml->display_active)
        nvml->display_active(card, &active);
    return active;
}

bool nvml_is_divided(const struct nvml *nvml, nvml_card card) {
    unsigned now = 0, after_a_reset = 0;
    return card && nvml->divided && nvml->divided(card, &now, &after_a_reset) == SUCCESS && now;
}

static void add_user(struct nvml_users *out, const struct nvml_process *process) {
    for (size_t i = 0; i < out->count; i++)
        if (out->list[i].pid == process->pid) /* it draws, and it computes */
            return;
    if (process->bytes == ~0ull || out->count == NVML_PROCESSES) {
        out->complete = false;
        return;
    }
    out->list[out->count++] = (struct nvml_user){process->pid, process->bytes, -1};
}

static void add_users(int (*ask)(nvml_card, unsigned *, struct nvml_process *), nvml_card card,
                      struct nvml_users *out) {
    struct nvml_process list[NVML_PROCESSES];
    unsigned found = NVML_PROCESSES;
    if (!card || !ask || ask(card, &found, list) != SUCCESS || found > NVML_PROCESSES) {
        out->complete = false;
        return;
    }
    for (unsigned i = 0; i < found; i++)
        add_user(out, &list[i]);
}

void nvml_users(const struct nvml *nvml, nvml_card card, struct nvml_users *out) {
    *out = (struct nvml_users){.complete = true};
    add_users(nvml->compute, card, out);
}

void nvml_add_graphics(const struct nvml *nvml, nvml_card card, struct nvml_users *out) {
    add_users(nvml->graphics, card, out);
}

/* Of each process the latest sample counts. NOT_FOUND: there is none since then. */
void nvml_add_busy(const struct nvml *nvml, nvml_card card, struct nvml_users *users) {
    struct nvml_sample list[NVML_SAMPLES] = {0};
    unsigned found = NVML_SAMPLES;
    unsigned long long since_us = (unsigned long long)(time(NULL) - BUSY_SECONDS) * 1000000;
    int result = card && nvml->busy_of ? nvml->busy_of(card, list, &found, since_us) : -1;
    if (result == NOT_FOUND)
        found = 0;
    else if (result != SUCCESS || found > NVML_SAMPLES)
        return;
    for (size_t i = 0; i < users->count; i++) {
        const struct nvml_sample *latest = NULL;
        for (unsigned j = 0; j < found; j++)
            if (list[j].pid == users->list[i].pid && (!latest || list[j].time_us > latest->time_us))
                latest = &list[j];
        users->list[i].busy_percent = latest ? (int)min_u64(latest->computing, 100) : 0;
    }
}

bool nvml_has_client(const struct nvml *nvml, nvml_card card, uint64_t pid) {
    struct nvml_process list[NVML_PROCESSES];
    unsigned found = NVML_PROCESSES;
    if (!card || !nvml->clients || nvml->clients(card, &found, list) != SUCCESS)
        return false;
    for (unsigned i = 0; i < found && i < NVML_PROCESSES; i++)
        if (list[i].pid == pid)
            return true;
    return false;
}
