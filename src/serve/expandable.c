/* expandable.c: see expandable.h. PyTorch maps 20 MiB at a time and keeps what it has mapped;
 * in mode compact only what live blocks reach into is physical behind its virtual handles, in mode
 * flush each has a piece of its own (vm/steps.c). It must be as strict as
 * the driver: a handle that is unknown, or addresses that are not mapped, are errors here too. */
#include "serve/expandable.h"

#include "base/lock.h"
#include "base/log.h"
#include "cuda/capture_mode.h"
#include "cuda/real.h"
#include "govern/decay_thread.h"
#include "govern/last_resort.h"
#include "govern/mode.h"
#include "serve/capacity.h"
#include "serve/device_vm.h"
#include "serve/sharing.h"
#include "track/device.h"
#include "track/oom.h"
#include "track/stream.h"
#include "track/thread.h"

/* PyTorch asks for one kind on each device. The tag of a virtual handle begins at bit 48. */
enum { MAX_KINDS = 16, KIND_SHIFT = 44 };

/* The driver's answer to such properties; it is asked once. A virtual handle has the
 * number of its kind in it. */
struct kind {
    CUmemAllocationProp properties;
    CUresult answer;
};

static struct {
    struct lock lock;
    struct kind kinds[MAX_KINDS];
    unsigned kind_count;
    _Atomic uint64_t created;
    atomic_bool without_books[VRAMGC_MAX_DEVICES];
} self;
CHILD_OPENS(self.lock);

/* --- the engine, which wants the device's context current --- */

/* A thread that has not used the runtime yet has none, and PyTorch asks for memory all the same.
 * Where it cannot be found out which one is current, that is left as it is: PyTorch has made it so,
 * and nothing of what it asks for may fail because of a question of ours. */
struct borrowed {
    bool possible, set;
    CUcontext before;
};

static struct borrowed borrow(struct device *device) {
    struct borrowed borrowed = {.possible = true};
    CUdevice current = -1;
    if (!real_current_context(&borrowed.before) ||
        (borrowed.before && REAL(cuCtxGetDevice)(&current) == CUDA_SUCCESS &&
         (unsigned)current == device_index(device)))
        return borrowed;
    CUcontext context = context_primary(device_index(device));
    borrowed.set = borrowed.possible = context && REAL(cuCtxSetCurrent)(context) == CUDA_SUCCESS;
    return borrowed;
}

static void return_context(const struct borrowed *borrowed) {
    if (borrowed->set)
        REAL(cuCtxSetCurrent)(borrowed->before);
}
#define BORROWED(device) const struct borrowed borrowed AT_END(return_context) = borrow(device)

/* --- whether the driver makes such memory at all (fabric handles, for one) --- */

static bool same_kind(const CUmemAllocationProp *a, const CUmemAllocationProp *b) {
    return a->type == b->type && a->requestedHandleTypes == b->requestedHandleTypes &&
           a->location.type == b->location.type && a->location.id == b->location.id &&
           a->allocFlags.compressionType == b->allocFlags.compressionType &&
           a->allocFlags.gpuDirectRDMACapable == b->allocFlags.gpuDirectRDMACapable &&
           a->allocFlags.usage == b->allocFlags.usage;
}

/* Its number. answer, if not NULL: the driver's, with which it gets one. MAX_KINDS: it has none, or
 * there is no room. */
static unsigned kind_number(const CUmemAllocationProp *properties, const CUresult *answer) {
    unsigned i = 0;
    LOCKED(&self.lock);
    while (i < self.kind_count && !same_kind(&self.kinds[i].properties, properties))
        i++;
    if (answer && i == self.kind_count && i < MAX_KINDS)
        self.kinds[self.kind_count++] = (struct kind){*properties, *answer};
    return i < self.kind_count ? i : MAX_KINDS;
}

static CUresult make_of_kind(const CUmemAllocationProp *properties) {
    CUmemGenericAllocationHandle handle = 0;
    RELAXED_CAPTURES;
    CUresult answer = REAL(cuMemCreate)(&handle, PAGE_BYTES, properties, 0);
    if (answer == CUDA_SUCCESS)
        vm_release(handle);
    return answer;
}

/* A device that is full to the last page does not say: PyTorch 2.8 to 2.12 would take such an
 * answer to the first of all requests for good. */
static CUresult ask_for_kind(const CUmemAllocationProp *properties) {
    CUresult answer = make_of_kind(properties);
    struct request request = last_resort_for(REFUSED_HANDLE, PAGE_BYTES);
    for (bool more = true; answer == CUDA_ERROR_OUT_OF_MEMORY && more;
         answer = make_of_kind(properties)) /* once more where nothing more came, too */
        more = last_resort(&request);
    return answer;
}

/* These answers hold for ever; any other error may be over with the next request. */
static bool is_for_good(CUresult answer) {
    return answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_SUPPORTED ||
           answer == CUDA_ERROR_NOT_PERMITTED || answer == CUDA_ERROR_INVALID_VALUE ||
           answer == CUDA_ERROR_INVALID_DEVICE;
}

static CUresult kind_of(const CUmemAllocationProp *properties, unsigned *kind) {
    *kind = kind_number(properties, NULL);
    if (*kind < MAX_KINDS)
        return self.kinds[*kind].answer; /* written once, before it was counted */
    CUresult answer = ask_for_kind(properties);
    if (!is_for_good(answer))
        return answer;
    *kind = kind_number(properties, &answer);
    return *kind < MAX_KINDS ? answer : CUDA_ERROR_NOT_SUPPORTED;
}

/* --- handles --- */

/* A part of them would hand virtual handles to the driver. */
static bool are_entries_ours(void) {
    static atomic_bool said;
    bool ours = vmm_entries_are_ours();
    if (!ours && !atomic_exchange(&said, true))
        LOG(LOG_WARN,
            "this driver, or another library, has functions for mapping memory that vramgc "
            "does not know; expandable segments are left to the driver");
    return ours;
}

/* An engine of steps makes all alike, by properties that the driver has agreed to. */
static struct vm *engine_for(struct device *device, const CUmemAllocationProp *properties) {
    bool wanted =
        device && (device_engine(device) || mode_is_compact(device) || mode_keeps_steps());
    if (!wanted || !are_entries_ours())
        return NULL;
    if (device_engine(device) || capture_active())
        return device_engine(device);
    unsigned kind;
    BORROWED(device);
    if (borrowed.possible && mode_is_compact(device))
        return device_vm_open(device);
    bool agreed = borrowed.possible && kind_of(properties, &kind) == CUDA_SUCCESS;
    return agreed ? device_steps_open(device, properties) : NULL;
}

static bool is_of_steps(const struct vm *vm, unsigned device) {
    return vm && vm == device_steps_at(device);
}

static void keep_no_steps(struct vm *steps, unsigned device) {
    vm_keep_no_steps(steps);
    device_account_pages(device_if_ready(device));
}

/* Gets the books before the handle, so that every virtual handle can be mapped. Without books all
 * are the driver's from then on, where no page of ours may lie: those of a block are of one kind.
 */
static bool has_books(struct vm *vm, unsigned device) {
    atomic_bool *without = &self.without_books[device];
    if (!atomic_load(without) && !vm_range_prepare(vm, book_range_largest_bytes())) {
        atomic_store(without, true);
        keep_no_steps(vm, device);
    }
    return !atomic_load(without);
}

/* The driver's own are not mapped where a step of ours still lies. */
static bool is_step_of(struct vm *steps, uint64_t bytes, const CUmemAllocationProp *properties) {
    bool fits = vm_step_fits(bytes) && same_kind(vm_step_properties(steps), properties);
    if (!fits)
        keep_no_steps(steps, (unsigned)properties->location.id);
    return fits;
}

bool vhandle_serves(uint64_t bytes, const CUmemAllocationProp *properties) {
    if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || !bytes ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || bytes % PAGE_BYTES ||
        !recording_is_on())
        return false;
    unsigned device = (unsigned)properties->location.id;
    struct vm *vm = engine_for(device_at(device), properties);
    return vm && has_books(vm, device) &&
           (!is_of_steps(vm, device) || is_step_of(vm, bytes, properties));
}

static CUresult promise(struct device *device, struct vm *steps, uint64_t bytes) {
    CUresult result = vm_step_promise(steps, bytes);
    if (UNLIKELY(result == CUDA_ERROR_OUT_OF_MEMORY)) {
        struct request request = last_resort_for(REFUSED_HANDLE, bytes);
        while (result == CUDA_ERROR_OUT_OF_MEMORY && last_resort(&request))
            result = vm_step_promise(steps, bytes);
    }
    device_account_pages(device);
    return result;
}

/* PyTorch makes all that a block lacks before it maps the first; where one handle is refused it
 * gives up its cache and begins anew. */
CUresult vhandle_create(CUmemGenericAllocationHandle *handle, uint64_t bytes,
                        const CUmemAllocationProp *properties) {
    unsigned index = (unsigned)properties->location.id, kind;
    struct device *device = device_if_ready(index);
    BORROWED(device);
    CUresult result = borrowed.possible ? kind_of(properties, &kind) : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS && device_steps(device))
        result = promise(device, device_steps(device), bytes);
    else if (result == CUDA_SUCCESS &&
             capacity_fails(device, device_pages(device), bytes, oom_page_asked_again(), false))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        *handle =
            VHANDLE_TAG << 48 | (uint64_t)kind << KIND_SHIFT | atomic_fetch_add(&self.created, 1);
    return result;
}

/* Not where vramgc has PyTorch empty its cache so that memory goes back. */
static bool keeps(struct vm *steps) {
    return vm_keeps_steps(steps) && !thread_is_ours();
}

/* Its handle is released. */
static void give_up_step(unsigned index, uint64_t bytes) {
    struct device *device = device_if_ready(index);
    struct vm *steps = device_steps_at(index);
    if (!steps)
        return;
    vm_step_forgo(steps, bytes);
    if (keeps(steps))
        decay_note_given_up(device);
    else
        thread_returned(index, vm_reclaim(steps, bytes, VM_ASK_NOT));
    device_account_pages(device);
}

CUresult vhandle_release(CUmemGenericAllocationHandle handle) {
    if (!recording_is_on())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct book_release release = vmm_release_begin(handle);
    if (release.gone)
        give_up_step(release.of.device, release.of.bytes);
    return release.known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vhandle_properties(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle) {
    struct book_handle known;
    if (!recording_is_on())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!properties || !book_find(handle, &known))
        return CUDA_ERROR_INVALID_VALUE;
    *properties = self.kinds[handle >> KIND_SHIFT & (MAX_KINDS - 1)].properties;
    return CUDA_SUCCESS;
}

static CUresult not_possible(const char *what) {
    sharing_not_possible(what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult vhandle_export(void) {
    return not_possible("sharing with another process or device");
}

uint64_t vhandle_real(uint64_t handle) {
    struct book_handle known;
    struct vm *steps = book_find(handle, &known) ? device_steps_at(known.device) : NULL;
    uint64_t address = steps ? book_address_of(handle) : 0;
    if (!address)
        return 0;
    keep_no_steps(steps, known.device);
    return vm_step_handle(steps, address);
}

/* --- ranges --- */

unsigned vhandle_address_again(uint64_t *address, uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    struct vm *vm = device ? device_engine(device) : NULL;
    uint64_t again = vm && has_books(vm, device_index(device)) ? vm_range_revive(vm, bytes) : 0;
    if (!again)
        return VRAMGC_MAX_DEVICES;
    *address = again;
    return device_index(device);
}

enum vm_range_end vhandle_address_free(const struct book_range *range, uint64_t bytes) {
    bool whole = recording_is_on() && bytes && range->bytes == bytes;
    struct vm *vm = whole ? device_engine_at(range->engine) : NULL;
    return vm ? vm_range_end(vm, range->address) : VM_RANGE_NOT_OURS;
}

/* --- mappings --- */

/* The range becomes one of the engine's at its first mapping: only then it is known whose memory
 * lives there. */
static CUresult map_range(uint64_t address, const struct book_handle *handle, struct vm *vm) {
    uint64_t bytes = handle->bytes;
    bool steps = is_of_steps(vm, handle->device);
    if (!vm || !vm_range_claim(vm, address, bytes))
        return not_possible("mapping at a second place or by somebody else");
    CUresult result = vm_attach(vm, address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && steps)
        result = vm_step_map(vm, address, bytes);
    if (result != CUDA_SUCCESS || vmm_mapped(address, bytes, handle->handle))
        return result;
    vm_detach(vm, address, bytes); /* nothing lives there yet */
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vhandle_map(uint64_t address, uint64_t bytes, uint64_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags) {
    struct book_handle known;
    if (!recording_is_on())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!book_find(handle, &known) || !known.references || bytes != known.bytes || offset ||
        flags || address % PAGE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    return known.mappings ? not_possible("mapping at a second place or by somebody else")
                          : map_range(address, &known, device_engine_at(known.device));
}

/* True: a virtual handle is mapped at the address. *vm: where it begins a row, else NULL. */
static bool begins_here(uint64_t address, uint64_t bytes, struct vm **vm,
                        struct book_mapping *first) {
    if (!recording_is_on() || !book_mapping_at(address, first))
        return false;
    *vm = book_is_row(address, bytes, first->device) ? device_engine_at(first->device) : NULL;
    return true;
}

/* Leaves the pages mapped, as idle ones, although PyTorch takes them for unmapped. An expandable
 * segment belongs to one stream, so that a later mapping of the same addresses is used in order
 * with what was there. */
bool vhandle_unmap(uint64_t address, uint64_t bytes, CUresult *result) {
    struct vm *vm;
    struct book_mapping first;
    if (!begins_here(address, bytes, &vm, &first))
        return false;
    *result = CUDA_ERROR_INVALID_VALUE;
    if (!vm)
        return true;
    bool steps = is_of_steps(vm, first.device);
    struct book_unmapping unmapping = vmm_unmap_begin(address, bytes);
    if (vm_detach(vm, address, bytes)) {
        uint64_t released_bytes = vmm_unmap_commit(&unmapping);
        for (uint64_t at = 0; steps && at < released_bytes; at += first.bytes)
            give_up_step(first.device, first.bytes);
        if (!steps) /* else with the handle */
            decay_note_given_up(device_if_ready(first.device));
        *result = CUDA_SUCCESS;
    } else {
        vmm_unmap_abort(&unmapping);
    }
    return true;
}

static CUresult open_to_device(struct vm *vm, const CUmemAccessDesc *access, unsigned own) {
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id < 0 ||
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return not_possible("limited access");
    if ((unsigned)access->location.id == own)
        return CUDA_SUCCESS; /* the engine gives it access with every page */
    return vm_add_peer(vm, (unsigned)access->location.id) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* Page tables take memory, too; PyTorch does not come out of this refusal (#188008). Once. */
static CUresult open_steps(struct vm *steps, uint64_t address, uint64_t bytes) {
    CUresult result = vm_step_open(steps, address, bytes);
    if (LIKELY(result != CUDA_ERROR_OUT_OF_MEMORY))
        return result;
    struct request request = last_resort_for(REFUSED_ADDRESSES, bytes);
    while (result == CUDA_ERROR_OUT_OF_MEMORY && last_resort(&request))
        result = vm_step_open(steps, address, bytes);
    return result;
}

bool vhandle_set_access(uint64_t address, uint64_t bytes, const CUmemAccessDesc *access,
                        size_t count, CUresult *result) {
    struct vm *vm;
    struct book_mapping first;
    if (!begins_here(address, bytes, &vm, &first))
        return false;
    *result = vm && access && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; *result == CUDA_SUCCESS && i < count; i++)
        *result = open_to_device(vm, &access[i], first.device);
    if (*result == CUDA_SUCCESS && is_of_steps(vm, first.device))
        *result = open_steps(vm, address, bytes);
    else if (*result == CUDA_SUCCESS && !capture_active())
        vm_mapped(vm, address, bytes);
    return true;
}

/* Of a step it is the driver's own, who counts it. */
bool vhandle_retain(CUmemGenericAllocationHandle *handle, uint64_t address, CUresult *result) {
    struct book_mapping mapping;
    if (!recording_is_on() || !handle || !book_mapping_at(address, &mapping))
        return false;
    struct vm *steps = device_steps_at(mapping.device);
    *result = CUDA_SUCCESS;
    if (steps) {
        keep_no_steps(steps, mapping.device);
        *result = REAL(cuMemRetainAllocationHandle)(handle, (void *)(uintptr_t)address);
        return true;
    }
    book_retain(mapping.handle, address);
    *handle = mapping.handle;
    return true;
}
