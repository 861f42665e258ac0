/* address.c: see address.h. To the program a segment is memory of cudaMalloc: one allocation of one
 * device. Who wants to hold on to the physical memory itself gets pages that stay for good. */
#include "serve/address.h"

#include "base/log.h"
#include "track/device.h"
#include "track/vmm.h"

static bool lookup_mapped(uint64_t address, struct address_info *place) {
    struct vmm_mapping mapping;
    if (!vmm_mapping_lookup(address, &mapping))
        return false;
    *place = (struct address_info){.device = mapping.device,
                                   .address = mapping.address,
                                   .bytes = mapping.bytes,
                                   .mapped = true};
    return true;
}

bool address_lookup(uint64_t address, struct address_info *place) {
    struct vm_location found;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct vm *vm = device_vm_at(i);
        if (!vm || !vm_owns(vm, address))
            continue;
        if (!vm_lookup(vm, address, &found))
            return lookup_mapped(address, place);
        *place = (struct address_info){
            .device = i, .address = found.address, .bytes = found.bytes, .context = found.context};
        return true;
    }
    return false;
}

/* As a block that is never given back: it ends with its segment. */
bool address_pin(uint64_t address, uint64_t bytes) {
    struct address_info place;
    if (!address_lookup(address, &place))
        return true;
    bool pinned = vm_commit(device_vm_at(place.device), address, bytes, true);
    if (!pinned)
        LOG(LOG_WARN,
            "gpu%u is full: it has no memory for %llu bytes at %#llx that another library uses",
            place.device, (unsigned long long)bytes, (unsigned long long)address);
    return pinned;
}
