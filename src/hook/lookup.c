/* lookup.c: the table of all wrappers, and the answers to those who ask for function pointers:
 * dlsym, cuGetProcAddress in both forms, cudaGetDriverEntryPoint in both. The real one is asked
 * first, always; then the pointer it gave is replaced by our wrapper if it is that of a hooked
 * function. So version suffixes, flags and status stay the driver's business. A look-up has no
 * other effect. */
#include "hook/nvml_answers.h"
#include "hook/hook.h"
#include "hook/lookup.h"
#include "hook/stubs.h"

#include <dlfcn.h>

/* --- the wrappers by id --- */

#define HOOK(library, result, symbol, parameters, arguments)                                       \
    [ID_##symbol] = (void *)(uintptr_t)symbol,
#define PASS HOOK
#define NEED(library, result, symbol, parameters, arguments)
static void *const wrappers[REAL_COUNT] = {
#include "hooks.def"
};
#undef HOOK
#undef PASS
#undef NEED

static void *for_pointer(void *pointer) {
    real_find_driver();
    enum real_id id = real_of_pointer(pointer);
    return id < REAL_COUNT ? wrappers[id] : hook_stub_of(pointer);
}

/* --- who asks for pointers --- */

/* The real dlsym, for the tail jump of dlsym.S. */
_Atomic(void *) hook_real_dlsym;

static struct { _Atomic uintptr_t start, end; } driver;

static void forget_closed(void) {
    if (UNLIKELY(real_forget_closed())) {
        atomic_store_explicit(&driver.end, 0, memory_order_release);
        runtimes_forget_closed();
        hook_stubs_forget();
    }
}

/* Forgets functions of the closed library, which our wrappers would call: the program still finds
 * the wrappers by name, for the next library that has them. */
__attribute__((visibility("default"))) int dlclose(void *handle) {
    int result = real_dlclose(handle);
    forget_closed();
    return result;
}

/* A driver that looks up its own functions (as under WSL) must get its own functions. */
static bool is_driver(const void *caller) {
    if (!atomic_load_explicit(&driver.end, memory_order_acquire)) {
        struct object_range range = objects_range("libcuda.so");
        if (!range.end)
            return false;
        atomic_store_explicit(&driver.start, range.start, memory_order_relaxed);
        atomic_store_explicit(&driver.end, range.end, memory_order_release);
    }
    uintptr_t p = (uintptr_t)caller;
    return p >= atomic_load_explicit(&driver.start, memory_order_relaxed) &&
           p < atomic_load_explicit(&driver.end, memory_order_relaxed);
}

#define HOOK(library, result, symbol, parameters, arguments) [ID_##symbol] = NOWHERE(symbol),
#define PASS                                                 HOOK
#define NEED(library, result, symbol, parameters, arguments)
static const char *const absent[REAL_COUNT] = {
#include "hooks.def"
};
#undef HOOK
#undef PASS
#undef NEED

static void *not_hooked(void *handle, const char *name, const void *caller,
                        const char **name_slot) {
    void *found = nvml_fabric_lookup(handle, name, caller);
    found = found ? found : nvml_memory_lookup(handle, name);
    return found || is_driver(caller) ? found : hook_stub_lookup(handle, name, name_slot);
}

void *hook_dlsym(void *handle, const char *name, const void *caller, const char **name_slot) {
    if (UNLIKELY(!atomic_load_explicit(&hook_real_dlsym, memory_order_relaxed)))
        atomic_store(&hook_real_dlsym, real_next_dlsym());
    if (handle == RTLD_NEXT || !name)
        return NULL; /* scope order skips us on purpose */
    enum real_id id = real_of_symbol(name);
    if (LIKELY(id == REAL_COUNT))
        return not_hooked(handle, name, caller, name_slot);
    if (is_driver(caller))
        return NULL;
    forget_closed(); /* what did not come through our dlclose */
    real_get(id); /* first: a look-up in vain leaves an error behind, which is not the caller's */
    void *found = real_ask_next(handle, name);
    /* Many programs ask in this way whether there is a CUDA at all. The real dlsym answers in the
     * end: for RTLD_DEFAULT it looks at who asks. */
    if (found && objects_own(found) && !real_get(id))
        *name_slot = absent[id];
    return handle != RTLD_DEFAULT && found && real_offer(id, found) ? wrappers[id] : NULL;
}

/* f: where the pointer is found. The runtime's flags: cudaEnablePerThreadDefaultStream is 2 like
 * the driver's. In CUDA 11 its first form has no status: one more register than it reads does no
 * harm.
 */
#define LOOK_UP(api, symbol, ...)                                                                  \
    real_##symbol##_t real = REAL_##api(symbol);                                                   \
    call_made(ID_##symbol);                                                                        \
    RESULT_##api result = real ? real(__VA_ARGS__) : MISSING_##api;                                \
    if ((int)result == CUDA_SUCCESS && f)                                                          \
        *f = for_pointer(*f);                                                                      \
    return result

WRAP(LOOK_UP, CUDA, cuGetProcAddress, (const char *name, void **f, int version, cuuint64_t flags),
     name, f, version, flags)
WRAP(LOOK_UP, CUDA, cuGetProcAddress_v2,
     (const char *name, void **f, int version, cuuint64_t flags,
      CUdriverProcAddressQueryResult *status),
     name, f, version, flags, status)
WRAP(LOOK_UP, CUDART, cudaGetDriverEntryPoint,
     (const char *name, void **f, unsigned long long flags,
      enum cudaDriverEntryPointQueryResult *status),
     name, f, flags, status)
WRAP(LOOK_UP, CUDART, cudaGetDriverEntryPointByVersion,
     (const char *name, void **f, unsigned version, unsigned long long flags,
      enum cudaDriverEntryPointQueryResult *status),
     name, f, version, flags, status)
