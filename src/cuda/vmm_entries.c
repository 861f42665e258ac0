/* vmm_entries.c: see vmm_entries.h. A driver newer than we know may have further forms of a
 * function, and another interposer its own ones: programs that ask by name get those. It must not
 * replace what anybody is given. */
#include "cuda/vmm_entries.h"

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

/* What the driver answers to somebody who knows its newest forms. NULL: there is none. */
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

static bool look(void) {
    real_cuDriverGetVersion_t get_version = REAL(cuDriverGetVersion);
    int version = 0;
    bool ours = get_version && get_version(&version) == CUDA_SUCCESS;
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
