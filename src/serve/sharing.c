/* sharing.c: see sharing.h. The pages of a segment may be used by whoever got peer access, as those
 * of cudaMalloc; other processes cannot open them. */
#include "serve/sharing.h"

#include "base/log.h"
#include "serve/address.h"
#include "track/device.h"
#include "track/recording.h"

static struct {
    _Atomic uint32_t peers[VRAMGC_MAX_DEVICES]; /* a bit for each device that may access this one's
                                                    memory */
    atomic_bool told_ipc;
    atomic_bool told_peer;
} self;

/* --- other processes --- */

void sharing_ipc_failed(uint64_t address) {
    struct address_info place;
    if (!address_lookup(address, &place) || atomic_exchange(&self.told_ipc, true))
        return;
    LOG(LOG_WARN, "memory of PyTorch's allocator cannot be opened by other processes in mode "
                  "compact; VRAMGC_MODE=flush serves them");
}

/* --- other devices --- */

static void add_peer(unsigned owner, unsigned accessing) {
    struct vm *vm = device_vm_at(owner);
    if (!vm || vm_add_peer(vm, accessing) || atomic_exchange(&self.told_peer, true))
        return;
    LOG(LOG_WARN, "gpu%u cannot access all memory of gpu%u", accessing, owner);
}

void sharing_peer_access(unsigned accessing, unsigned owner) {
    if (accessing >= VRAMGC_MAX_DEVICES || owner >= VRAMGC_MAX_DEVICES || accessing == owner)
        return;
    atomic_fetch_or(&self.peers[owner], 1u << accessing);
    add_peer(owner, accessing);
}

void sharing_vm_opened(unsigned device) {
    uint32_t bits = atomic_load(&self.peers[device]);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        if (bits & 1u << i)
            add_peer(device, i);
}

/* Its context is gone, and with it the access it had and gave. */
void sharing_reset(unsigned device) {
    atomic_store(&self.peers[device], 0);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        atomic_fetch_and(&self.peers[i], ~(1u << device));
}

static bool several_devices(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES && count < 2; i++)
        count += device_if_ready(i) != NULL;
    return count > 1;
}

/* The device of an address; -1: host memory, or nobody's. */
static int device_of(uint64_t address, bool *paged) {
    real_cuPointerGetAttribute_t get = REAL(cuPointerGetAttribute);
    struct address_info place;
    unsigned type = 0;
    int ordinal = -1;
    if (address_lookup(address, &place)) {
        *paged = true;
        return (int)place.device;
    }
    if (!get || get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
        type != CU_MEMORYTYPE_DEVICE ||
        get(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS)
        return -1;
    return ordinal;
}

bool sharing_between_devices(uint64_t to, uint64_t from, int *to_device, int *from_device) {
    bool paged = false;
    if (!recording_is_on() || !several_devices())
        return false;
    *to_device = device_of(to, &paged);
    *from_device = device_of(from, &paged);
    return paged && *to_device >= 0 && *from_device >= 0 && *to_device != *from_device;
}
