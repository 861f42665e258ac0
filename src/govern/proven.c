/* proven.c: see proven.h. A device that cannot be told from others is not proven. */
#include "govern/proven.h"

#include "cuda/real.h"
#include "vm/version.h"

enum { MOST_DEVICES = 32 }; /* struct proven has a bit for each */

static struct proof look_at(int driver_version, int device) {
    real_cuDeviceGetUuid_t get_uuid = REAL(cuDeviceGetUuid);
    struct proof_key key;
    CUuuid uuid;
    if (!get_uuid || get_uuid(&uuid, device) != CUDA_SUCCESS)
        return (struct proof){PROOF_NONE, PARK_UNTRIED, false};
    proof_key(uuid.bytes, driver_version, VM_VERSION, &key);
    return proof_look(&key);
}

struct proven proven_look(int driver_version) {
    real_cuDeviceGetCount_t get_count = REAL(cuDeviceGetCount);
    struct proven proven = {.state = PROOF_NONE};
    int count = 0;
    if (!driver_version || !get_count || get_count(&count) != CUDA_SUCCESS)
        return proven;
    for (int i = 0; i < count && i < MOST_DEVICES; i++) {
        struct proof proof = look_at(driver_version, i);
        if (i == 0 || proof.state < proven.state)
            proven = (struct proven){.state = proof.state, .unmap_waits = proven.unmap_waits};
        if (proof.state == proven.state)
            proven.devices |= 1u << i;
        if (proof.unmap_waits)
            proven.unmap_waits |= 1u << i;
    }
    return proven;
}
