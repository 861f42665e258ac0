/* fabric.c: a question that PyTorch asks NVML only because vramgc chose expandable segments: is the
 * card part of an NVLink fabric? Cards before Hopper cannot answer, and PyTorch then warns the
 * user, or, with Python's -W error, raises an exception. It is told "not part of any". Nobody
 * else's question is touched, nor one that PyTorch would have asked without vramgc. */
#include "hook/fabric.h"

#include "base/base.h"
#include "cuda/objects.h"
#include "cuda/real.h"
#include "govern/alloc_conf.h"

#include <string.h>

enum { NVML_SUCCESS = 0, NVML_ERROR_NOT_SUPPORTED = 3, NO_FABRIC = 0 };

/* nvmlGpuFabricInfo_v2_t up to the member that PyTorch reads; the third form begins like it. */
struct info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

typedef int (*ask_t)(void *device, struct info *info);
static struct { _Atomic(ask_t) ask; } real;

static int ask(void *device, struct info *info) {
    int result = atomic_load_explicit(&real.ask, memory_order_acquire)(device, info);
    if (result != NVML_ERROR_NOT_SUPPORTED || !info || !alloc_conf_chose_expandable())
        return result;
    info->state = NO_FABRIC;
    return NVML_SUCCESS;
}

void *fabric_lookup(void *handle, const char *name, const void *caller) {
    if (LIKELY(strcmp(name, "nvmlDeviceGetGpuFabricInfoV") != 0) || !objects_in_allocator(caller))
        return NULL;
    ask_t found = (ask_t)(uintptr_t)real_ask_next(handle, name);
    if (!found)
        return NULL;
    atomic_store_explicit(&real.ask, found, memory_order_release);
    return (void *)(uintptr_t)ask;
}
