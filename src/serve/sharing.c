/* sharing.c: see sharing.h. It must leave to the driver whatever does not touch paged memory.
 * Access given before a device has a page engine must not be lost. */
#include "serve/sharing.h"

#include "base/log.h"
#include "track/device.h"
#include "vm/book.h"

static struct {
    _Atomic uint32_t peers[VRAMGC_MAX_DEVICES]; /* a bit for each device that may access this one's
                                                    memory */
    atomic_bool closed_told, impossible_told;
} self;

bool address_lookup(uint64_t address, struct address_info *place) {
    struct book_mapping mapping;
    uint64_t segment, bytes;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct vm *vm = device_pages_at(i);
        if (!vm || !vm_owns(vm, address, &segment, &bytes))
            continue;
        *place = (struct address_info){i, segment, bytes, vm_context(vm), false};
        if (bytes)
            return true;
        bool mapped = book_mapping_at(address, &mapping);
        if (mapped)
            *place = (struct address_info){i, mapping.address, mapping.bytes, 0, true};
        return mapped;
    }
    return false;
}

/* As a block that is never given back: it ends with its segment. */
bool address_pin(uint64_t address, uint64_t bytes) {
    struct address_info place;
    if (!address_lookup(address, &place))
        return true;
    bool pinned = vm_commit(device_pages_at(place.device), address, bytes, true);
    if (!pinned)
        LOG(LOG_WARN,
            "gpu%u is full: it has no memory for %llu bytes at %#llx that another library uses",
            place.device, (unsigned long long)bytes, (unsigned long long)address);
    return pinned;
}

static bool open_to_peer(unsigned owner, unsigned accessing) {
    struct vm *vm = device_pages_at(owner);
    bool opened = !vm || vm_add_peer(vm, accessing);
    if (!opened && !atomic_exchange(&self.closed_told, true))
        LOG(LOG_WARN, "gpu%u cannot access all memory of gpu%u", accessing, owner);
    return opened;
}

bool peer_access_enabled(unsigned accessing, unsigned owner) {
    if (accessing >= VRAMGC_MAX_DEVICES || owner >= VRAMGC_MAX_DEVICES || accessing == owner)
        return true;
    atomic_fetch_or(&self.peers[owner], 1u << accessing);
    return open_to_peer(owner, accessing);
}

void peer_access_vm_opened(unsigned device) {
    uint32_t bits = atomic_load(&self.peers[device]);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        if (bits & 1u << i)
            open_to_peer(device, i);
}

/* Its context is gone, and with it the access it had and gave. */
void peer_access_reset(unsigned device) {
    atomic_store(&self.peers[device], 0);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        atomic_fetch_and(&self.peers[i], ~(1u << device));
}

void sharing_not_possible(const char *what) {
    figure_add(&store_file()->process.impossible_calls, 1);
    if (!atomic_exchange(&self.impossible_told, true))
        LOG(LOG_WARN,
            "%s is not possible with PyTorch's memory in mode compact; VRAMGC_MODE=flush leaves "
            "that memory to the driver",
            what);
}

void sharing_ipc_failed(uint64_t address) {
    struct address_info place;
    if (address_lookup(address, &place))
        sharing_not_possible("sharing with another process or device");
}

/* The device of an address; -1: host memory, or not known. */
static int device_of_address(uint64_t address, bool *paged) {
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
    struct device *first = recording_is_on() ? device_next(NULL) : NULL;
    if (!first || !device_next(first))
        return false; /* there is no other */
    *to_device = device_of_address(to, &paged);
    *from_device = device_of_address(from, &paged);
    return paged && *to_device >= 0 && *from_device >= 0 && *to_device != *from_device;
}
