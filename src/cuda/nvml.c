/* nvml.c: see nvml.h. The library is opened with RTLD_LOCAL, for a rare moment, and let go again.
 * It must believe no figure that NVML says it does not know. */
#include "cuda/nvml.h"
#include "base/base.h"
#include "cuda/real.h"

#include <dlfcn.h>

typedef struct nvml_device *device_t;

/* nvmlProcessInfo_t as of the second form of the calls. */
struct info {
    unsigned pid;
    unsigned long long bytes; /* all bits: not available */
    unsigned gpu_instance, compute_instance;
};

struct memory {
    unsigned long long total, free, used;
};

typedef int (*plain_t)(void);
typedef int (*count_t)(unsigned *count);
typedef int (*index_t)(unsigned number, device_t *device);
typedef int (*name_t)(device_t device, char *name, unsigned bytes);
typedef int (*memory_t)(device_t device, struct memory *memory);
typedef int (*handle_t)(const char *bus_id, device_t *device);
typedef int (*list_t)(device_t device, unsigned *count, struct info *infos);

enum { SUCCESS = 0, ROOM = 64 };

/* By the newest form that there is; of the first, which has another layout, nothing is asked. */
static list_t find_list(void *library, const char *newest, const char *older) {
    list_t found = (list_t)real_dlsym(library, newest);
    return found ? found : (list_t)real_dlsym(library, older);
}

static size_t add(struct nvml_process *out, size_t count, size_t room, const struct info *info) {
    for (size_t i = 0; i < count; i++)
        if (out[i].pid == info->pid) /* it draws, and it computes */
            return count;
    if (count < room && info->bytes != ~0ull)
        out[count++] = (struct nvml_process){info->pid, info->bytes};
    return count;
}

static size_t add_all(list_t list, device_t device, struct nvml_process *out, size_t count,
                      size_t room) {
    struct info infos[ROOM];
    unsigned found = ROOM;
    if (!list || list(device, &found, infos) != SUCCESS)
        return count;
    for (unsigned i = 0; i < found && i < ROOM; i++)
        count = add(out, count, room, &infos[i]);
    return count;
}

static size_t ask(void *library, const char *bus_id, struct nvml_process *out, size_t room) {
    handle_t handle = (handle_t)real_dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    device_t device = NULL;
    if (!handle || handle(bus_id, &device) != SUCCESS)
        return 0;
    size_t count = add_all(find_list(library, "nvmlDeviceGetComputeRunningProcesses_v3",
                                     "nvmlDeviceGetComputeRunningProcesses_v2"),
                           device, out, 0, room);
    return add_all(find_list(library, "nvmlDeviceGetGraphicsRunningProcesses_v3",
                             "nvmlDeviceGetGraphicsRunningProcesses_v2"),
                   device, out, count, room);
}

/* NULL: there is no NVML that works. */
static void *begin_nvml(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    plain_t begin = library ? (plain_t)real_dlsym(library, "nvmlInit_v2") : NULL;
    bool works = begin && real_dlsym(library, "nvmlShutdown") && begin() == SUCCESS;
    return works ? library : NULL;
}

static void end_nvml(void *library) {
    ((plain_t)real_dlsym(library, "nvmlShutdown"))();
}

size_t nvml_processes(const char *bus_id, struct nvml_process *out, size_t room) {
    void *library = begin_nvml();
    if (!library)
        return 0;
    size_t count = ask(library, bus_id, out, room);
    end_nvml(library);
    return count;
}

static void ask_free(void *library, unsigned number, device_t device, struct nvml_card *out) {
    memory_t memory_of = (memory_t)real_dlsym(library, "nvmlDeviceGetMemoryInfo");
    name_t name_of = (name_t)real_dlsym(library, "nvmlDeviceGetName");
    struct memory memory = {0};
    if (!memory_of || memory_of(device, &memory) != SUCCESS || memory.free <= out->free_bytes)
        return;
    *out = (struct nvml_card){.free_bytes = memory.free, .number = number};
    if (!name_of || name_of(device, out->name, sizeof out->name) != SUCCESS)
        out->name[0] = 0;
}

static void ask_others(void *library, const char *bus_id, struct nvml_card *out) {
    count_t count_of = (count_t)real_dlsym(library, "nvmlDeviceGetCount_v2");
    index_t by_number = (index_t)real_dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    handle_t handle = (handle_t)real_dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    device_t own = NULL, device = NULL;
    unsigned count = 0;
    if (!count_of || !by_number || !handle || handle(bus_id, &own) != SUCCESS ||
        count_of(&count) != SUCCESS)
        return;
    for (unsigned i = 0; i < count; i++)
        if (by_number(i, &device) == SUCCESS && device != own)
            ask_free(library, i, device, out);
}

bool nvml_other_card(const char *bus_id, struct nvml_card *out) {
    void *library = begin_nvml();
    *out = (struct nvml_card){0};
    if (!library)
        return false;
    ask_others(library, bus_id, out);
    end_nvml(library);
    return out->free_bytes > 0;
}
