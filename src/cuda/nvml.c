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

typedef int (*plain_t)(void);
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

size_t nvml_processes(const char *bus_id, struct nvml_process *out, size_t room) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    plain_t begin = library ? (plain_t)real_dlsym(library, "nvmlInit_v2") : NULL;
    plain_t end = library ? (plain_t)real_dlsym(library, "nvmlShutdown") : NULL;
    if (!begin || !end || begin() != SUCCESS)
        return 0;
    size_t count = ask(library, bus_id, out, room);
    end();
    return count;
}
