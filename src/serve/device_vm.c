/* device_vm.c: see device_vm.h: between PyTorch's blocks and the page engine (vm/vm.h). It must
 * never let a block reach its user without pages. */
#include "serve/device_vm.h"

#include "base/log.h"
#include "cuda/errors.h"
#include "govern/decay.h"
#include "govern/mode.h"
#include "govern/wakeup.h"
#include "serve/peer_access.h"
#include "track/capture.h"
#include "track/context.h"
#include "track/oom.h"
#include "track/settings.h"
#include "track/stream.h"

enum { PENDING_BATCH = 32 };

/* Before anybody can see it: from its first page on it asks every stream. */
static struct vm *open_engine(struct device *device) {
    const struct options *options = settings_options();
    unsigned index = device_index(device);
    if (!errors_find()) /* a block without pages must never be handed out */
        return NULL;
    struct vm *vm = vm_open(index, capture_active, options->lowvram ? 0 : options->threshold);
    if (!vm)
        return NULL;
    if (vm_context(vm) == (uint64_t)(uintptr_t)context_primary(index))
        vm_ask_context(vm);
    MUTANT(streams_unknown, stream_follow(index, vm), (void)0);
    return vm;
}

/* At the first segment of a device, in a thread whose context is current. */
struct vm *device_vm_open(struct device *device) {
    const struct options *options = settings_options();
    bool untried = false;
    if (!mode_is_compact(device) ||
        !atomic_compare_exchange_strong(&device->paging.tried, &untried, true))
        return device_vm(device);
    struct vm *vm = open_engine(device);
    bool no_spill = vm && options->spill && !vm_enable_spill(vm, options->spill);
    atomic_store_explicit(&device->paging.vm, vm, memory_order_release);
    wakeup(WAKEUP_LOOK); /* pages may have to go soon */
    peer_access_vm_opened(device_index(device));
    mode_tried(device, vm != NULL);
    if (no_spill)
        LOG(LOG_WARN, "gpu%u cannot map host memory: VRAMGC_SPILL is not used there",
            device_index(device));
    if (!vm && options->mode == MODE_COMPACT)
        LOG(LOG_WARN, "gpu%u cannot map memory page by page; mode flush is used there",
            device_index(device));
    return vm;
}

/* Calls no driver. */
static void mark_idle(struct vm *vm, uint64_t address, uint64_t bytes, bool streams_done) {
    vm_mark_idle(vm, address, bytes, streams_done && !capture_active());
}

/* PyTorch asks only now and then whether other streams have finished with a block that was given
 * back. Nobody reads it any more, so its pages can go as soon as the whole GPU has been waited for:
 * that is what it means to mark them idle with streams_done false. Whether there were any. */
static bool leave_pending(struct device *device, struct vm *vm) {
    struct block_range batch[PENDING_BATCH];
    size_t count, all = 0;
    while ((count = block_take_pending(device_index(device), batch, PENDING_BATCH)) > 0) {
        for (size_t i = 0; i < count; i++)
            mark_idle(vm, batch[i].address, batch[i].bytes, false);
        all += count;
    }
    return all > 0;
}

static bool commit(const struct block_event *event, struct vm *vm) {
    return vm_commit(vm, event->address, event->bytes, capture_active());
}

/* Before a block is given up what waits is taken as well; not while anything is captured,
 * for the GPU cannot be waited for then. Where that fails PyTorch gets an error, and counts the
 * block as allocated for ever. */
static bool block_came(const struct block_event *event, struct vm *vm) {
    bool possible =
        LIKELY(commit(event, vm)) ||
        (vm_refusal() == CUDA_ERROR_OUT_OF_MEMORY && !capture_active() &&
         MUTANT(pending_kept, leave_pending(event->device, vm), false) && commit(event, vm));
    if (LIKELY(possible)) {
        device_account_pages(event->device);
        return true;
    }
    vm_commit_failed(vm, event->address, event->bytes);
    if (vm_refusal() == CUDA_ERROR_OUT_OF_MEMORY)
        oom_at_block(event->device, event->bytes);
    wakeup(WAKEUP_LOOK);
    return false;
}

bool device_vm_block_changed(const struct block_event *event) {
    struct vm *vm = device_vm(event->device);
    if (LIKELY(!vm))
        return true;
    if (event->allocated)
        return block_came(event, vm);
    if (event->pending)
        return true;
    mark_idle(vm, event->address, event->bytes, event->streams_done);
    decay_note_idle(event->device);
    return true;
}

void device_vm_block_ended(struct device *device, const struct block_range *block,
                           bool streams_done) {
    struct vm *vm = device_vm(device);
    if (!vm)
        return;
    if (block->bytes)
        mark_idle(vm, block->address, block->bytes, streams_done);
    decay_note_idle(device);
}
