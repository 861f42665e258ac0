/* peer_access.c: see peer_access.h. Access given before a device has a page engine must not be
 * lost. */
#include "serve/peer_access.h"

#include "base/log.h"
#include "track/device.h"

static struct {
    _Atomic uint32_t peers[VRAMGC_MAX_DEVICES]; /* a bit for each device that may access this one's
                                                    memory */
    atomic_bool told;
} self;

static void add_peer(unsigned owner, unsigned accessing) {
    struct vm *vm = device_vm_at(owner);
    if (!vm || vm_add_peer(vm, accessing) || atomic_exchange(&self.told, true))
        return;
    LOG(LOG_WARN, "gpu%u cannot access all memory of gpu%u", accessing, owner);
}

void peer_access_enabled(unsigned accessing, unsigned owner) {
    if (accessing >= VRAMGC_MAX_DEVICES || owner >= VRAMGC_MAX_DEVICES || accessing == owner)
        return;
    atomic_fetch_or(&self.peers[owner], 1u << accessing);
    add_peer(owner, accessing);
}

void peer_access_vm_opened(unsigned device) {
    uint32_t bits = atomic_load(&self.peers[device]);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        if (bits & 1u << i)
            add_peer(device, i);
}

/* Its context is gone, and with it the access it had and gave. */
void peer_access_reset(unsigned device) {
    atomic_store(&self.peers[device], 0);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        atomic_fetch_and(&self.peers[i], ~(1u << device));
}
