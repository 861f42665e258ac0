/* address.c: what a program is told about the addresses of paged segments, and what other devices
 * and processes may do with them. To the program a segment is memory of cudaMalloc: one allocation
 * of one device. Its pages may be used by whoever got peer access; who wants to hold on to the
 * physical memory itself gets pages that stay for good. */
#include "base/log.h"
#include "serve/native.h"
#include "serve/expandable.h"

static struct {
    _Atomic uint32_t let_in[VRAMGC_MAX_DEVICES]; /* a bit for each device that may access this one's
                                                    memory */
    atomic_bool told_ipc;
    atomic_bool told_peer;
} self;

bool record_place(uint64_t address, struct record_place *place) {
    struct pages_place found;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct pages *pages = paged_engine_at(i);
        if (!pages || !pages_own(pages, address))
            continue;
        if (!pages_find(pages, address, &found))
            return virtual_place(address, place);
        *place = (struct record_place){
            .device = i, .address = found.address, .bytes = found.bytes, .context = found.context};
        return true;
    }
    return false;
}

/* As a block that is never given back: it ends with its segment. */
bool record_pin(uint64_t address, uint64_t bytes) {
    struct record_place place;
    if (!record_place(address, &place))
        return true;
    bool pinned = pages_use(paged_engine_at(place.device), address, bytes, true);
    if (!pinned)
        LOG(LOG_WARN, "gpu%u is full: %llu bytes at %#llx cannot be kept in place for others",
            place.device, (unsigned long long)bytes, (unsigned long long)address);
    return pinned;
}

/* --- other processes --- */

void record_ipc_refused(uint64_t address) {
    struct record_place place;
    if (!record_place(address, &place) || atomic_exchange(&self.told_ipc, true))
        return;
    LOG(LOG_WARN, "memory of PyTorch's allocator cannot be opened by other processes in mode "
                  "compact; VRAMGC_MODE=flush serves them");
}

/* --- other devices --- */

static void let_in(unsigned owner, unsigned accessing) {
    struct pages *pages = paged_engine_at(owner);
    if (!pages || pages_let_in(pages, accessing) || atomic_exchange(&self.told_peer, true))
        return;
    LOG(LOG_WARN, "gpu%u cannot be let into all memory of gpu%u", accessing, owner);
}

void record_peer_access(unsigned accessing, unsigned owner) {
    if (accessing >= VRAMGC_MAX_DEVICES || owner >= VRAMGC_MAX_DEVICES || accessing == owner)
        return;
    atomic_fetch_or(&self.let_in[owner], 1u << accessing);
    let_in(owner, accessing);
}

void pointer_engine_opened(unsigned device) {
    uint32_t bits = atomic_load(&self.let_in[device]);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        if (bits & 1u << i)
            let_in(device, i);
}

/* Its context is gone, and with it the access it had and gave. */
void pointer_reset(unsigned device) {
    atomic_store(&self.let_in[device], 0);
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        atomic_fetch_and(&self.let_in[i], ~(1u << device));
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
    struct record_place place;
    unsigned type = 0;
    int ordinal = -1;
    if (record_place(address, &place)) {
        *paged = true;
        return (int)place.device;
    }
    if (!get || get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
        type != CU_MEMORYTYPE_DEVICE ||
        get(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS)
        return -1;
    return ordinal;
}

bool record_between_devices(uint64_t to, uint64_t from, int *to_device, int *from_device) {
    bool paged = false;
    if (!record_is_on() || !several_devices())
        return false;
    *to_device = device_of(to, &paged);
    *from_device = device_of(from, &paged);
    return paged && *to_device >= 0 && *from_device >= 0 && *to_device != *from_device;
}
