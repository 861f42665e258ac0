/* vmm_entries.c: see vmm_entries.h. A driver newer than we know may have further forms of a
 * function, and another interposer its own ones: programs that ask by name get those. It must not
 * replace what a program is given. */
#include "cuda/vmm_entries.h"

#include "base/text.h"
#include "cuda/objects.h"
#include "cuda/real.h"

static const char *const names[] = {
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemRetainAllocationHandle",
    "cuMemExportToShareableHandle",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMulticastBindMem",
    "cuMulticastBindAddr",
};

/* What the driver answers to a program that knows its newest forms. NULL: there is none. */
static void *newest(const char *name, int version) {
    real_cuGetProcAddress_v2_t ask = REAL(cuGetProcAddress_v2);
    real_cuGetProcAddress_t ask_as_before = REAL(cuGetProcAddress);
    CUdriverProcAddressQueryResult status;
    void *found = NULL;
    CUresult result = ask             ? ask(name, &found, version, 0, &status)
                      : ask_as_before ? ask_as_before(name, &found, version, 0)
                                      : CUDA_ERROR_NOT_FOUND;
    return result == CUDA_SUCCESS ? found : NULL;
}

/* 0: not known. */
static int driver_version(void) {
    real_cuDriverGetVersion_t get_version = REAL(cuDriverGetVersion);
    int version = 0;
    return get_version && get_version(&version) == CUDA_SUCCESS ? version : 0;
}

static bool look(void) {
    int version = driver_version();
    bool ours = version != 0;
    real_find_driver();
    for (size_t i = 0; ours && i < ARRAY_LENGTH(names); i++) {
        void *found = newest(names[i], version);
        ours = !found || real_of_pointer(found) < REAL_COUNT;
    }
    return ours;
}

bool vmm_entries_are_ours(void) {
    enum { UNKNOWN, OURS, NOT_OURS };
    static _Atomic int known;
    int answer = atomic_load(&known);
    if (answer == UNKNOWN) {
        answer = look() ? OURS : NOT_OURS;
        atomic_store(&known, answer);
    }
    return answer == OURS;
}

/* The object that has the function, should it be another than the driver. */
static bool is_beside_driver(const void *function, struct object_range *object, char *path,
                             size_t capacity) {
    return function && !objects_inside(function, "libcuda.so") && !objects_own(function) &&
           objects_at(function, object, path, capacity);
}

/* The runtime gets cuMemAlloc from cuGetProcAddress, which may be all that is hooked. Elsewhere
 * libraries that have a runtime of their own may export its functions, and replace none. */
static bool find_interposer(struct object_range *object, char *path, size_t capacity) {
    void *of_runtime = real_get(ID_cudaMalloc);
    if (of_runtime != real_beneath(ID_cudaMalloc) && objects_at(of_runtime, object, path, capacity))
        return true;
    return is_beside_driver(real_get(ID_cuMemAlloc_v2), object, path, capacity) ||
           is_beside_driver(newest("cuMemAlloc", driver_version()), object, path, capacity);
}

bool vmm_entries_pass_by(char *out, size_t capacity) {
    char path[512];
    struct object_range object;
    bool found = find_interposer(&object, path, sizeof path);
    uintptr_t create = (uintptr_t)real_get(ID_cuMemCreate);
    bool passed = found && (create < object.start || create >= object.end);
    text_copy(out, capacity, passed ? text_after_folder(path) : "");
    return *out; /* the program itself has no name here, and knows what it does */
}
