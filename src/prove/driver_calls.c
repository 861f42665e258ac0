/* driver_calls.c: see driver_calls.h. */
#include "prove/driver_calls.h"

#include "cuda/real.h"

#include <dlfcn.h>
#include <stdio.h>

struct prove_driver cu;

static struct {
    void *library;
    CUcontext context;
    int device;
    unsigned long (*simgpu_errors)(void);
} self;

/* The engine's way to the driver (cuda/real.h): here all is found at once, or not at all. */
_Atomic(void *) real_pointers[REAL_COUNT];

void *real_find(enum real_id id) {
    (void)id;
    return NULL;
}

void *driver_symbol(const char *symbol) {
    return dlsym(self.library, symbol);
}

static const char *find_functions(void) {
    static char missing[96];
    const char *lacks = NULL;
#define MAY(symbol) cu.symbol = (__typeof__(cu.symbol))dlsym(self.library, #symbol);
#define NEED(symbol)                                                                               \
    MAY(symbol)                                                                                    \
    if (!cu.symbol)                                                                                \
        lacks = #symbol;
#include "prove/driver.def"
    if (!lacks)
        return NULL;
    snprintf(missing, sizeof missing, "the driver is too old: it has no %s", lacks);
    return missing;
}

static void give_engine(enum real_id id, bool of_driver, const char *symbol) {
    if (of_driver)
        atomic_store(&real_pointers[id], dlsym(self.library, symbol));
}

const char *driver_load(void) {
    self.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!self.library)
        return "no NVIDIA driver here: libcuda.so.1 cannot be loaded";
#define HOOK(library, result, symbol, parameters, arguments)                                       \
    give_engine(ID_##symbol, library == CUDA, #symbol);
#define PASS HOOK
#define NEED HOOK
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED
    self.simgpu_errors = (unsigned long (*)(void))dlsym(self.library, "simgpu_errors");
    return find_functions();
}

bool driver_is_simulated(void) {
    return self.simgpu_errors != NULL;
}

unsigned long driver_errors(void) {
    return self.simgpu_errors ? self.simgpu_errors() : 0;
}

CUresult driver_open(int device) {
    CUdevice ordinal;
    self.device = device;
    TRY(cu.cuInit(0));
    TRY(cu.cuDeviceGet(&ordinal, device));
    TRY(cu.cuDevicePrimaryCtxRetain(&self.context, ordinal));
    return driver_bind();
}

CUresult driver_bind(void) {
    return cu.cuCtxSetCurrent(self.context);
}

CUcontext driver_context(void) {
    return self.context;
}

int driver_device(void) {
    return self.device;
}

const char *driver_error_name(CUresult result) {
    const char *name = NULL;
    return cu.cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}
