/* card_reading.c: see card_reading.h. It makes no context, and believes no figure that NVML says it
 * does not know. */
#include "read/card_reading.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/text.h"

#include <dlfcn.h>
#include <string.h>

typedef struct nvml_device *device_t;

struct memory {
    unsigned long long total, free, used;
};

/* nvmlProcessInfo_t as of the second form of the calls. */
struct info {
    unsigned pid;
    unsigned long long bytes; /* all bits: not available */
    unsigned gpu_instance, compute_instance;
};

/* nvmlPciInfo_t. */
struct pci {
    char older_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32]; /* the domain has eight digits, where CUDA writes four */
};

typedef int (*init_t)(void);
typedef int (*count_t)(unsigned *count);
typedef int (*index_t)(unsigned index, device_t *device);
typedef int (*name_t)(device_t device, char *name, unsigned bytes);
typedef int (*pci_t)(device_t device, struct pci *pci);
typedef int (*handle_t)(const char *bus_id, device_t *device);
typedef int (*memory_t)(device_t device, struct memory *memory);
typedef int (*busy_t)(device_t device, unsigned percents[2]); /* of time: computing, copying */
typedef int (*heat_t)(device_t device, int sensor, unsigned *celsius);
typedef int (*power_t)(device_t device, unsigned *milliwatts);
typedef int (*list_t)(device_t device, unsigned *count, struct info *infos);

enum { SUCCESS = 0 };

static struct {
    bool asked;
    handle_t handle;
    memory_t memory;
    list_t compute, graphics;
    count_t count;
    index_t by_index;
    name_t name;
    pci_t pci;
    busy_t busy;
    heat_t heat;
    power_t power, most_power;
} nvml;

/* By the newest form that there is; of the first, which has another layout, nothing is asked. */
static list_t find_list(void *library, const char *newest, const char *older) {
    list_t found = (list_t)dlsym(library, newest);
    return found ? found : (list_t)dlsym(library, older);
}

static void load(void) {
    nvml.asked = true;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    init_t init = library ? (init_t)dlsym(library, "nvmlInit_v2") : NULL;
    if (!init || init() != SUCCESS)
        return;
    nvml.handle = (handle_t)dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    nvml.memory = (memory_t)dlsym(library, "nvmlDeviceGetMemoryInfo");
    nvml.count = (count_t)dlsym(library, "nvmlDeviceGetCount_v2");
    nvml.by_index = (index_t)dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    nvml.name = (name_t)dlsym(library, "nvmlDeviceGetName");
    nvml.pci = (pci_t)dlsym(library, "nvmlDeviceGetPciInfo_v3");
    nvml.busy = (busy_t)dlsym(library, "nvmlDeviceGetUtilizationRates");
    nvml.heat = (heat_t)dlsym(library, "nvmlDeviceGetTemperature");
    nvml.power = (power_t)dlsym(library, "nvmlDeviceGetPowerUsage");
    nvml.most_power = (power_t)dlsym(library, "nvmlDeviceGetEnforcedPowerLimit");
    nvml.compute = find_list(library, "nvmlDeviceGetComputeRunningProcesses_v3",
                             "nvmlDeviceGetComputeRunningProcesses_v2");
    nvml.graphics = find_list(library, "nvmlDeviceGetGraphicsRunningProcesses_v3",
                              "nvmlDeviceGetGraphicsRunningProcesses_v2");
}

static void add(struct card_reading *reading, const struct info *info) {
    for (size_t i = 0; i < reading->count; i++)
        if (reading->processes[i].pid == info->pid) /* it draws, and it computes */
            return;
    if (info->bytes == ~0ull || reading->count == CARD_READING_PROCESSES) {
        reading->complete = false;
        return;
    }
    reading->processes[reading->count].pid = info->pid;
    reading->processes[reading->count++].bytes = info->bytes;
}

static void add_all(struct card_reading *reading, list_t list, device_t device) {
    struct info infos[CARD_READING_PROCESSES];
    unsigned found = CARD_READING_PROCESSES;
    if (!list || list(device, &found, infos) != SUCCESS || found > CARD_READING_PROCESSES) {
        reading->complete = false;
        return;
    }
    for (unsigned i = 0; i < found; i++)
        add(reading, &infos[i]);
}

static int watts_of(power_t power, device_t device) {
    unsigned milliwatts = 0;
    return power && power(device, &milliwatts) == SUCCESS ? (int)((milliwatts + 500) / 1000) : -1;
}

static struct card_sensors read_sensors(device_t device) {
    unsigned percents[2] = {0}, celsius = 0;
    struct card_sensors out = {.busy_percent = -1, .celsius = -1};
    if (nvml.busy && nvml.busy(device, percents) == SUCCESS)
        out.busy_percent = (int)percents[0];
    if (nvml.heat && nvml.heat(device, 0, &celsius) == SUCCESS)
        out.celsius = (int)celsius;
    out.watts = watts_of(nvml.power, device);
    out.most_watts = watts_of(nvml.most_power, device);
    out.known = out.busy_percent >= 0 || out.celsius >= 0 || out.watts >= 0;
    return out;
}

struct card_reading card_read(const char *bus_id) {
    struct card_reading reading = {.complete = true};
    struct memory memory = {0};
    device_t device = NULL;
    if (!nvml.asked)
        load();
    if (!nvml.handle || !nvml.memory || nvml.handle(bus_id, &device) != SUCCESS ||
        nvml.memory(device, &memory) != SUCCESS)
        return reading;
    reading.known = memory.total > 0;
    reading.free_bytes = memory.free;
    reading.total_bytes = memory.total;
    reading.used_bytes = minus_u64(memory.total, memory.free);
    reading.sensors = read_sensors(device);
    add_all(&reading, nvml.compute, device);
    add_all(&reading, nvml.graphics, device);
    return reading;
}

static bool read_label(unsigned index, struct card_label *out) {
    device_t device = NULL;
    struct pci pci = {0};
    if (nvml.by_index(index, &device) != SUCCESS || nvml.pci(device, &pci) != SUCCESS)
        return false;
    size_t length = strnlen(pci.bus_id, sizeof pci.bus_id - 1), shorter = strlen("0000:01:00.0");
    text_copy(out->bus_id, sizeof out->bus_id,
              pci.bus_id + (length > shorter ? length - shorter : 0));
    if (nvml.name(device, out->name, sizeof out->name) != SUCCESS)
        text_copy(out->name, sizeof out->name, "GPU");
    clean_text(out->name, sizeof out->name);
    return true;
}

size_t card_labels(struct card_label *out, size_t room) {
    unsigned found = 0;
    size_t count = 0;
    if (!nvml.asked)
        load();
    if (!nvml.count || !nvml.by_index || !nvml.name || !nvml.pci || nvml.count(&found) != SUCCESS)
        return 0;
    for (unsigned i = 0; i < found && count < room; i++)
        count += read_label(i, &out[count]);
    return count;
}
