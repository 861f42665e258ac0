/* expandable.c: see expandable.h. PyTorch maps 20 MiB at a time and keeps what it has mapped;
 * behind its virtual handles only what live blocks reach into is physical. It must be as strict as
 * the driver: a handle that is unknown, or addresses that are not mapped, are errors here too. */
#include "serve/expandable.h"

#include "base/hashmap.h"
#include "base/lock.h"
#include "base/log.h"
#include "govern/decay.h"
#include "govern/retry.h"
#include "serve/capacity.h"
#include "serve/device_vm.h"
#include "track/oom.h"
#include "track/capture.h"
#include "track/context.h"
#include "track/device.h"
#include "track/recording.h"
#include "track/stream.h"
#include "track/thread.h"

#include <string.h>

enum { MAX_KINDS = 16, FLAG_IN_ENGINE = 1 };

/* What was once asked of the driver: whether it makes memory with such properties. */
struct kind {
    CUmemAllocationProp properties;
    CUresult answer;
};

static struct {
    struct lock lock;
    struct hashmap ranges;   /* address -> bytes; in the engine of device if FLAG_IN_ENGINE */
    struct hashmap handles;  /* handle -> bytes, device, class: kind, link: references,
                               context: where it is mapped */
    struct hashmap mappings; /* address -> bytes, device, link: handle */
    uint64_t longest_bytes;  /* of all mappings so far */
    uint64_t created;
    struct kind kinds[MAX_KINDS];
    unsigned kind_count;
} self;

/* --- the engine, which wants the device's context current --- */

/* A thread that has not used the runtime yet has none, and PyTorch asks for memory all the same. */
struct borrowed {
    bool possible, set;
    CUcontext before, context;
};

static struct borrowed borrow(struct device *device) {
    struct borrowed borrowed = {0};
    CUdevice current = -1;
    if (REAL(cuCtxGetCurrent)(&borrowed.before) != CUDA_SUCCESS)
        return borrowed;
    borrowed.context = borrowed.before;
    borrowed.possible = borrowed.before && REAL(cuCtxGetDevice)(&current) == CUDA_SUCCESS &&
                        (unsigned)current == device_index(device);
    if (borrowed.possible)
        return borrowed;
    borrowed.context = context_primary(device_index(device));
    borrowed.set = borrowed.possible =
        borrowed.context && REAL(cuCtxSetCurrent)(borrowed.context) == CUDA_SUCCESS;
    return borrowed;
}

static void return_context(const struct borrowed *borrowed) {
    if (borrowed->set)
        REAL(cuCtxSetCurrent)(borrowed->before);
}

static struct vm *engine_of(unsigned index) {
    struct device *device = device_if_ready(index);
    return device ? device_vm(device) : NULL;
}

/* --- whether the driver makes such memory at all (fabric handles, for one) --- */

static bool same(const CUmemAllocationProp *a, const CUmemAllocationProp *b) {
    return a->type == b->type && a->requestedHandleTypes == b->requestedHandleTypes &&
           a->location.type == b->location.type && a->location.id == b->location.id &&
           a->allocFlags.compressionType == b->allocFlags.compressionType &&
           a->allocFlags.gpuDirectRDMACapable == b->allocFlags.gpuDirectRDMACapable &&
           a->allocFlags.usage == b->allocFlags.usage;
}

static unsigned find_kind(const CUmemAllocationProp *properties) {
    unsigned i = 0;
    lock_take(&self.lock);
    while (i < self.kind_count && !same(&self.kinds[i].properties, properties))
        i++;
    unsigned found = i < self.kind_count ? i : MAX_KINDS;
    lock_give(&self.lock);
    return found;
}

/* MAX_KINDS: there is no room. */
static unsigned add_kind(const CUmemAllocationProp *properties, CUresult answer) {
    unsigned at = MAX_KINDS;
    lock_take(&self.lock);
    if (self.kind_count < MAX_KINDS) {
        at = self.kind_count++;
        self.kinds[at] = (struct kind){*properties, answer};
    }
    lock_give(&self.lock);
    return at;
}

static CUresult make_one(const CUmemAllocationProp *properties) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult answer = REAL(cuMemCreate)(&handle, PAGE_BYTES, properties, 0);
    if (answer == CUDA_SUCCESS)
        REAL(cuMemRelease)(handle);
    return answer;
}

/* A device that is full to the last page does not say: PyTorch 2.8 to 2.12 would take such an
 * answer to the first of all requests for good. */
static CUresult ask_driver(const CUmemAllocationProp *properties) {
    CUresult answer = make_one(properties);
    if (answer == CUDA_ERROR_OUT_OF_MEMORY && retry_after_oom(PAGE_BYTES))
        answer = make_one(properties);
    return answer;
}

static CUresult kind_of(const CUmemAllocationProp *properties, unsigned *kind) {
    *kind = find_kind(properties);
    if (*kind < MAX_KINDS)
        return self.kinds[*kind].answer; /* written once, before it was counted */
    CUresult answer = ask_driver(properties);
    if (answer == CUDA_ERROR_OUT_OF_MEMORY)
        return answer;
    *kind = add_kind(properties, answer);
    return *kind < MAX_KINDS ? answer : CUDA_ERROR_NOT_SUPPORTED;
}

/* --- handles --- */

bool vhandle_serves(uint64_t bytes, const CUmemAllocationProp *properties) {
    if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || !bytes ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || bytes % PAGE_BYTES ||
        !recording_is_on())
        return false;
    struct device *device = device_at((unsigned)properties->location.id);
    if (!device || device_vm(device) || capture_active())
        return device && device_vm(device);
    struct borrowed borrowed = borrow(device);
    struct vm *vm = borrowed.possible ? device_vm_open(device) : NULL;
    return_context(&borrowed);
    return vm != NULL;
}

static CUresult add_handle(CUmemGenericAllocationHandle *handle, uint64_t bytes, unsigned device,
                           unsigned kind) {
    lock_take(&self.lock);
    struct hashmap_entry entry = {.key = VHANDLE_TAG << 48 | ++self.created,
                                  .bytes = bytes,
                                  .link = 1,
                                  .class = kind,
                                  .device = (uint16_t)device};
    bool added = hashmap_put(&self.handles, &entry, NULL);
    lock_give(&self.lock);
    *handle = entry.key;
    return added ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* PyTorch makes all that a block lacks before it maps the first; where one handle is refused it
 * gives up its cache and begins anew. */
CUresult vhandle_create(CUmemGenericAllocationHandle *handle, uint64_t bytes,
                        const CUmemAllocationProp *properties) {
    unsigned index = (unsigned)properties->location.id, kind;
    struct device *device = device_if_ready(index);
    struct borrowed borrowed = borrow(device);
    CUresult result = borrowed.possible ? kind_of(properties, &kind) : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS &&
        capacity_fails(device, device_vm(device), bytes, oom_page_asked_again()))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        stream_follow(device, borrowed.context);
    return_context(&borrowed);
    return result == CUDA_SUCCESS ? add_handle(handle, bytes, index, kind) : result;
}

/* Without a reference and without a mapping it is gone. The lock is held. */
static void drop_if_unused(const struct hashmap_entry *entry) {
    if (!entry->link && !entry->context)
        hashmap_take(&self.handles, entry->key, NULL);
}

CUresult vhandle_release(CUmemGenericAllocationHandle handle) {
    if (!recording_is_on())
        return CUDA_ERROR_NOT_INITIALIZED;
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    bool known = entry && entry->link > 0;
    if (known) {
        entry->link--;
        drop_if_unused(entry);
    }
    lock_give(&self.lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vhandle_properties(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle) {
    if (!recording_is_on())
        return CUDA_ERROR_NOT_INITIALIZED;
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    bool known = entry && properties;
    if (known)
        *properties = self.kinds[entry->class].properties;
    lock_give(&self.lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult not_possible(const char *what) {
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        LOG(LOG_WARN,
            "%s is not possible with PyTorch's memory in mode compact; VRAMGC_MODE=flush leaves "
            "that memory to the driver",
            what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult vhandle_export(void) {
    return not_possible("sharing with another process or device");
}

/* --- ranges --- */

bool vhandle_reserved(uint64_t address, uint64_t bytes) {
    struct hashmap_entry range = {.key = address, .bytes = bytes};
    lock_take(&self.lock);
    bool added = hashmap_put(&self.ranges, &range, NULL);
    lock_give(&self.lock);
    return added;
}

struct search {
    uint64_t address, bytes;
    struct hashmap_entry *found;
};

static bool look_around(const struct hashmap_entry *entry, void *context) {
    struct search *search = context;
    if (search->address - entry->key < entry->bytes)
        search->found = (struct hashmap_entry *)entry;
    return false;
}

/* The range that holds the address; there are few. The lock is held. */
static struct hashmap_entry *range_around(uint64_t address) {
    struct search search = {.address = address, .found = hashmap_find(&self.ranges, address)};
    if (!search.found)
        hashmap_sweep(&self.ranges, look_around, &search);
    return search.found;
}

static bool look_inside(const struct hashmap_entry *entry, void *context) {
    struct search *search = context;
    if (entry->key - search->address < search->bytes)
        search->found = (struct hashmap_entry *)entry;
    return false;
}

enum vhandle_free vhandle_address_free(uint64_t address, uint64_t bytes) {
    struct search search = {.address = address, .bytes = bytes};
    struct hashmap_entry range = {0};
    if (!recording_is_on())
        return VHANDLE_FREE_REAL;
    lock_take(&self.lock);
    struct hashmap_entry *found = hashmap_find(&self.ranges, address);
    if (found && found->bytes == bytes)
        hashmap_sweep(&self.mappings, look_inside, &search);
    if (found && found->bytes == bytes && !search.found)
        hashmap_take(&self.ranges, address, &range);
    lock_give(&self.lock);
    if (search.found)
        return VHANDLE_FREE_IN_USE;
    struct vm *vm = range.flags & FLAG_IN_ENGINE ? engine_of(range.device) : NULL;
    if (vm && vm_range_end(vm, address))
        return VHANDLE_FREE_TAKEN;
    return range.key ? VHANDLE_FREE_ENDED : VHANDLE_FREE_REAL;
}

/* The range becomes one of the engine's at its first mapping: only then it is known whose memory
 * lives there. The lock is held. */
static bool enter(struct hashmap_entry *range, unsigned device) {
    if (range->flags & FLAG_IN_ENGINE)
        return range->device == device;
    struct vm *vm = engine_of(device);
    if (!vm || !vm_range_add(vm, range->key, range->bytes, true))
        return false;
    range->flags |= FLAG_IN_ENGINE;
    range->device = (uint16_t)device;
    return true;
}

/* --- mappings --- */

/* The mapping that holds the address. There are thousands, and launchers of kernels ask about every
 * argument: it is looked for from page to page, for as many as the longest mapping has. The lock is
 * held. */
static struct hashmap_entry *mapping_around(uint64_t address) {
    uint64_t page = address - address % PAGE_BYTES;
    for (uint64_t back = 0; back < min_u64(self.longest_bytes, page); back += PAGE_BYTES) {
        struct hashmap_entry *found = hashmap_find(&self.mappings, page - back);
        if (found)
            return address - found->key < found->bytes ? found : NULL;
    }
    return NULL;
}

/* The lock is held. */
static CUresult map(uint64_t address, uint64_t bytes, struct hashmap_entry *handle) {
    struct hashmap_entry *range = range_around(address);
    struct hashmap_entry mapping = {
        .key = address, .bytes = bytes, .link = handle->key, .device = handle->device};
    if (!range || address + bytes > range->key + range->bytes || !enter(range, handle->device))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!vm_attach(engine_of(handle->device), address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!hashmap_put(&self.mappings, &mapping, NULL)) {
        vm_detach(engine_of(handle->device), address, bytes); /* nothing lives there yet */
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    self.longest_bytes = max_u64(self.longest_bytes, bytes);
    handle->context = address;
    return CUDA_SUCCESS;
}

CUresult vhandle_map(uint64_t address, uint64_t bytes, uint64_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!recording_is_on())
        return CUDA_ERROR_NOT_INITIALIZED;
    lock_take(&self.lock);
    struct hashmap_entry *entry = hashmap_find(&self.handles, handle);
    bool right = entry && entry->link > 0 && bytes == entry->bytes && !offset && !flags &&
                 address % PAGE_BYTES == 0;
    if (right)
        result = entry->context ? CUDA_ERROR_NOT_SUPPORTED : map(address, bytes, entry);
    lock_give(&self.lock);
    return result == CUDA_ERROR_NOT_SUPPORTED
               ? not_possible("mapping at a second info or by somebody else")
               : result;
}

/* Whether [address, +bytes) is exactly a row of whole mappings of one device. The lock is held. */
static bool is_row(uint64_t address, uint64_t bytes, unsigned *device) {
    uint64_t end = address + bytes;
    const struct hashmap_entry *first = hashmap_find(&self.mappings, address), *mapping = first;
    while (mapping && mapping->device == first->device && address < end) {
        address += mapping->bytes;
        mapping = hashmap_find(&self.mappings, address);
    }
    if (first)
        *device = first->device;
    return first && address == end;
}

/* Whether a virtual handle is mapped at the address. *pages: where it begins a row, else NULL. */
static bool begins_here(uint64_t address, uint64_t bytes, struct vm **vm, unsigned *device) {
    *vm = NULL;
    if (!recording_is_on())
        return false;
    lock_take(&self.lock);
    bool ours = mapping_around(address) != NULL;
    if (ours && is_row(address, bytes, device))
        *vm = engine_of(*device);
    lock_give(&self.lock);
    return ours;
}

static void forget_row(uint64_t address, uint64_t bytes) {
    struct hashmap_entry mapping;
    lock_take(&self.lock);
    for (uint64_t at = address; at < address + bytes; at += mapping.bytes) {
        if (!hashmap_take(&self.mappings, at, &mapping))
            break;
        struct hashmap_entry *handle = hashmap_find(&self.handles, mapping.link);
        if (handle) {
            handle->context = 0;
            drop_if_unused(handle);
        }
    }
    lock_give(&self.lock);
}

/* What is mapped stays so, idle: PyTorch's own view is that nothing is. An expandable segment
 * belongs to one stream, so that whoever maps the same addresses again works in order with what was
 * there. */
bool vhandle_unmap(uint64_t address, uint64_t bytes, CUresult *result) {
    struct vm *vm;
    unsigned device = VRAMGC_MAX_DEVICES;
    if (!begins_here(address, bytes, &vm, &device))
        return false;
    bool detached = vm && vm_detach(vm, address, bytes);
    if (detached) {
        forget_row(address, bytes);
        decay_note_given_up(device_if_ready(device));
    }
    *result = detached ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return true;
}

static CUresult add_peer(struct vm *vm, const CUmemAccessDesc *access, unsigned own) {
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id < 0 ||
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return not_possible("limited access");
    if ((unsigned)access->location.id == own)
        return CUDA_SUCCESS; /* the engine gives it access with every page */
    return vm_add_peer(vm, (unsigned)access->location.id) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

bool vhandle_set_access(uint64_t address, uint64_t bytes, const CUmemAccessDesc *access,
                        size_t count, CUresult *result) {
    struct vm *vm;
    unsigned own = VRAMGC_MAX_DEVICES;
    if (!begins_here(address, bytes, &vm, &own))
        return false;
    *result = vm && access && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; *result == CUDA_SUCCESS && i < count; i++)
        *result = add_peer(vm, &access[i], own);
    return true;
}

bool vhandle_retain(CUmemGenericAllocationHandle *handle, uint64_t address, CUresult *result) {
    if (!recording_is_on() || !handle)
        return false;
    lock_take(&self.lock);
    struct hashmap_entry *mapping = mapping_around(address);
    struct hashmap_entry *entry = mapping ? hashmap_find(&self.handles, mapping->link) : NULL;
    if (entry) {
        entry->link++;
        *handle = entry->key;
    }
    lock_give(&self.lock);
    *result = CUDA_SUCCESS;
    return entry != NULL;
}

bool vhandle_lookup(uint64_t address, struct vhandle_mapping *out) {
    lock_take(&self.lock);
    struct hashmap_entry *mapping = mapping_around(address);
    if (mapping)
        *out = (struct vhandle_mapping){mapping->device, mapping->key, mapping->bytes};
    lock_give(&self.lock);
    return mapping != NULL;
}

/* --- the end --- */

/* The addresses stay reserved; the engine they were in is no more. */
static bool leave_engine(const struct hashmap_entry *entry, void *context) {
    if (entry->device == *(const unsigned *)context)
        ((struct hashmap_entry *)entry)->flags = 0;
    return false;
}

void vhandle_reset(unsigned device) {
    lock_take(&self.lock);
    hashmap_drop_device(&self.handles, device);
    hashmap_drop_device(&self.mappings, device);
    hashmap_sweep(&self.ranges, leave_engine, &device);
    lock_give(&self.lock);
}

void vhandle_unlock(void) {
    lock_force_open(&self.lock);
}
