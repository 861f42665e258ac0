/* mode.c: which mode this process is in: gathers the facts for mode_table.c as they become known
 * (at cuInit, at PyTorch's first segment, after a device's self-test), and keeps the mode and the
 * reason in the file. Once it has begun it
 * must not wait for anything: its questions come with PyTorch's lock held. */
#include "govern/mode.h"

#include "base/cancel.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"
#include "cuda/real.h"
#include "govern/mode_table.h"
#include "govern/own_thread.h"
#include "govern/torch.h"
#include "track/process_state.h"
#include "track/thread.h"
#include "vm/version.h"

#include <stdlib.h>
#include <string.h>

/* ---- the machine: it must not make a context, nor change anything ---- */

enum { MOST_DEVICES = 32 }; /* struct proven has a bit for each */

static struct proof proof_of_device(int driver_version, int device) {
    real_cuDeviceGetUuid_t get_uuid = REAL(cuDeviceGetUuid);
    struct proof_key key;
    CUuuid uuid;
    if (!get_uuid || get_uuid(&uuid, device) != CUDA_SUCCESS)
        return (struct proof){PROOF_NONE, PARK_UNTRIED, false};
    proof_key(uuid.bytes, driver_version, VM_VERSION, &key);
    return proof_look(&key);
}

/* A device that cannot be told from others is not proven. */
static struct proven proven_look(int driver_version) {
    real_cuDeviceGetCount_t get_count = REAL(cuDeviceGetCount);
    struct proven proven = {.state = PROOF_NONE};
    int count = 0;
    if (!driver_version || !get_count || get_count(&count) != CUDA_SUCCESS)
        return proven;
    for (int i = 0; i < count && i < MOST_DEVICES; i++) {
        struct proof proof = proof_of_device(driver_version, i);
        if (i == 0 || proof.state < proven.state)
            proven = (struct proven){.state = proof.state, .unmap_waits = proven.unmap_waits};
        if (proof.state == proven.state)
            proven.devices |= 1u << i;
        if (proof.unmap_waits)
            proven.unmap_waits |= 1u << i;
    }
    return proven;
}

static bool devices_can_map(void) {
    real_cuDeviceGetCount_t get_count = REAL(cuDeviceGetCount);
    real_cuDeviceGetAttribute_t get_attribute = REAL(cuDeviceGetAttribute);
    int count = 0, supported = 0;
    if (!get_count || !get_attribute || get_count(&count) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < count; i++)
        if (get_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i) !=
                CUDA_SUCCESS ||
            !supported)
            return false;
    return count > 0;
}

struct mode_machine machine_look(void) {
    int version = 0;
    real_cuDriverGetVersion_t get_version = REAL(cuDriverGetVersion);
    if (!get_version || get_version(&version) != CUDA_SUCCESS)
        version = 0;
    struct mode_machine machine = {
        .driver = version, .maps = devices_can_map(), .proven = proven_look(version)};
    driver_version_read(machine.driver_version, sizeof machine.driver_version);
    vmm_entries_pass_by(machine.interposer, sizeof machine.interposer);
    return machine;
}

const char *machine_objection(char *out, size_t capacity) {
    char interposer[48];
    struct text text = text_in(out, capacity);
    if (!devices_can_map())
        return "a device cannot map memory page by page";
    if (!vmm_entries_pass_by(interposer, sizeof interposer))
        return NULL;
    text_format(&text, "%s answers for the driver, but not for cuMemCreate", interposer);
    return out;
}

/* ---- the mode ---- */

/* So many blocks of a PyTorch that is newer than what was tried must have come as they are known,
 * before one of its segments gets its memory page by page. The first layers that a model moves to
 * the card are as many. */
enum { BLOCKS_TO_SEE = 64 };

static struct {
    struct lock lock;
    char torch[32], alloc_conf[256], interposer[48], driver_version[DRIVER_VERSION_BYTES];
    char unproven[128]; /* VRAMGC_UNPROVEN: `vramgc run` says why */
    struct mode_facts facts;
    struct mode_choice choice;
    bool unsaid, asked, spill_said;
    _Atomic(enum option_mode) mode; /* that of the choice */
    atomic_bool own_pool, keeps_steps;
    atomic_uint unmap_waits; /* devices: struct proven */
    atomic_bool settled;     /* nothing but a self-test can change it any more */
} self;
CHILD_OPENS(self.lock);

/* The lock is held. A reader of the file may see a part of both reasons just then. */
static void choose_mode(void) {
    struct mode_choice choice = mode_choose(&self.facts);
    struct mode_facts events_fit = self.facts;
    events_fit.events = EVENTS_FIT;
    atomic_store(&self.settled, self.asked && (self.facts.events != EVENTS_NOT_YET ||
                                               mode_choose(&events_fit).mode == choice.mode));
    if (choice.mode == self.choice.mode && strcmp(choice.why, self.choice.why) == 0)
        return;
    struct vramgc_file *file = store_file();
    self.choice = choice;
    self.unsaid = true;
    atomic_store(&self.mode, choice.mode);
    atomic_store(&self.keeps_steps, choice.keeps_steps);
    text_copy(file->mode, sizeof file->mode, mode_name(choice.mode));
    text_copy(file->mode_why, sizeof file->mode_why, choice.why);
    __atomic_store_n(&file->driver_pool, choice.driver_pool, __ATOMIC_RELAXED);
    __atomic_store_n(&file->needs_proof, choice.needs_proof, __ATOMIC_RELAXED);
}

/* A proof covers the three doors: cudaMallocAsync as well. */
static bool wants_own_pool(enum proof_state proof) {
    const struct options *options = settings_options();
    return options->async == ASYNC_PAGES ||
           (options->async == ASYNC_AUTO && proof == PROOF_PASSED &&
            (options->mode == MODE_AUTO || options->mode == MODE_COMPACT));
}

bool mode_wants_own_pool(void) {
    return atomic_load_explicit(&self.own_pool, memory_order_relaxed);
}

bool mode_unmaps_at_rest(unsigned device) {
    return device < 32 && atomic_load(&self.unmap_waits) >> device & 1;
}

void mode_begin(const struct mode_machine *machine) {
    struct vramgc_file *file = store_file();
    atomic_store(&self.own_pool, wants_own_pool(machine->proven.state));
    atomic_store(&self.unmap_waits, machine->proven.unmap_waits);
    LOCKED(&self.lock);
    text_copy(self.torch, sizeof self.torch, file->torch_version);
    text_copy(self.alloc_conf, sizeof self.alloc_conf, file->alloc_conf);
    text_copy(self.interposer, sizeof self.interposer, machine->interposer);
    const char *unproven = getenv("VRAMGC_UNPROVEN");
    text_copy(self.unproven, sizeof self.unproven, unproven ? unproven : "");
    text_copy(self.driver_version, sizeof self.driver_version, machine->driver_version);
    self.facts = (struct mode_facts){
        .wish = (enum option_mode)settings_options()->mode,
        .torch = self.torch,
        .alloc_conf = self.alloc_conf,
        .driver = machine->driver,
        .driver_version = self.driver_version,
        .wsl = torch_on_wsl(),
        .addresses_limited = torch_addresses_bytes() != UINT64_MAX,
        .own_pool = mode_wants_own_pool(),
        .aimdo = torch_has_aimdo(),
        .interposer = self.interposer,
        .maps = machine->maps,
        .proof = machine->proven.state,
        .least_proven = machine->proven.devices,
        .unproven = self.unproven,
    };
    choose_mode();
}

/* PyTorch tells of the block for which it took a segment before it takes another. */
static enum mode_events look_at_events(const struct device *device) {
    if (thread_since_block()->segments > 0 ||
        figure_get(&store_file()->process.unmatched_blocks) > 0)
        return EVENTS_DIFFER;
    return figure_get(&device->out->stats.block_allocs) >= BLOCKS_TO_SEE ? EVENTS_FIT
                                                                         : EVENTS_NOT_YET;
}

/* PyTorch, or what runs beside it, may have been loaded only after cuInit. */
static void look_at_torch(enum mode_events events) {
    char version[sizeof self.torch];
    int cancel = cancel_disable();
    torch_find_version(version, sizeof version);
    bool aimdo = torch_has_aimdo();
    lock_take(&self.lock);
    self.asked = true;
    if (!self.torch[0]) {
        text_copy(self.torch, sizeof self.torch, version);
        text_copy(store_file()->torch_version, sizeof store_file()->torch_version, version);
    }
    self.facts.aimdo = aimdo;
    if (self.facts.events == EVENTS_NOT_YET)
        self.facts.events = events;
    choose_mode();
    lock_give(&self.lock);
    cancel_restore(cancel);
}

bool mode_is_compact(const struct device *device) {
    if (UNLIKELY(!atomic_load(&self.settled)))
        look_at_torch(look_at_events(device));
    return atomic_load(&self.mode) == MODE_COMPACT;
}

bool mode_keeps_steps(void) {
    return atomic_load(&self.settled) && atomic_load(&self.keeps_steps) &&
           !settings_options()->lowvram && own_threads() > 0;
}

void mode_tried(const struct device *device, bool passed) {
    LOCKED(&self.lock);
    unsigned *devices = passed ? &self.facts.passed : &self.facts.failed;
    *devices |= 1u << device_index(device);
    choose_mode();
}

void mode_say(bool last) {
    lock_take(&self.lock);
    struct mode_choice choice = self.choice;
    bool tested = self.facts.passed || self.facts.failed;
    bool say = self.unsaid && (last || tested || choice.mode != MODE_COMPACT);
    self.unsaid = self.unsaid && !say;
    bool no_spill = settings_options()->spill && choice.mode != MODE_COMPACT && !self.spill_said &&
                    (last || atomic_load(&self.settled));
    self.spill_said = self.spill_said || no_spill;
    lock_give(&self.lock);
    if (say)
        LOG(LOG_INFO, "mode %s: %s", mode_name(choice.mode), choice.why);
    if (no_spill)
        LOG(LOG_WARN, "nothing will be put in host memory (VRAMGC_SPILL) in mode %s: %s",
            mode_name(choice.mode), choice.why);
}
