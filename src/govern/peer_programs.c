/* peer_programs.c: see peer_programs.h. The one that asks waits with the lock of PyTorch's
 * allocator held: it must wait for no peer longer than its patience, for a peer that is gone not at
 * all, and for one that let somebody wait in vain only when it has answered. */
#include "govern/peer_programs.h"

#include "base/log.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "cuda/meminfo.h"
#include "govern/peer_file.h"
#include "govern/python.h"
#include "govern/wakeup.h"
#include "track/while_parked.h"
#include "track/process_settings.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* All peers together. On a busy machine a peer at rest was seen to answer within 0.3 to 6 ms. */
#define PATIENCE_NS (200 * MILLISECOND_NS)

/* How often it is looked whether the peer lives. */
#define ALIVE_NS (20 * MILLISECOND_NS)

/* More than any card has: what others say is no more than that. */
#define MOST_BYTES ((uint64_t)1 << 50)

static struct {
    struct lock lock; /* what is told of peers in the file */
    /* Of the look that is under way. */
    uint64_t askers[VRAMGC_MAX_DEVICES], reclaimed_bytes[VRAMGC_MAX_DEVICES];
} self;

void peers_begin(void) {
    if (settings_options()->peers == PEERS_OFF || settings_policy().mode != POLICY_FLUSH)
        return;
    struct peer_slot *slot = peer_file_join();
    if (slot)
        wakeup_share(WAKEUP_LOOK, &slot->asked);
}

static void answer(struct peer_slot *own, unsigned asked) {
    atomic_store(&own->answered, asked);
    syscall(SYS_futex, &own->answered, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void peers_end(void) {
    struct peer_slot *own = peer_file_own();
    peer_file_leave();
    if (own) /* whoever has asked */
        answer(own, atomic_load(&own->asked));
}

void peers_forget(void) {
    wakeup_share(WAKEUP_LOOK, NULL);
    peer_file_forget();
    lock_force_open(&self.lock);
}

/* The same for all processes (FNV-1a). */
static uint64_t card_of(const struct device *device) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *p = device->out->bus_id; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
    return *device->out->bus_id ? hash : 0;
}

/* --- who asks --- */

struct asking {
    struct device *device;
    uint64_t card, end_ns;
    int64_t lacking_bytes;
    bool tried[PEERS_SLOTS];
};

/* Where it has the card; NULL: not, or it is not to be asked. */
static struct peer_card *card_in(const struct asking *asking, size_t i) {
    struct peer_slot *slot = peer_file_slot(i);
    if (!slot || asking->tried[i] || MUTANT(late_peer_asked, atomic_load(&slot->late), 0))
        return NULL;
    for (size_t j = 0; j < VRAMGC_MAX_DEVICES; j++)
        if (atomic_load(&slot->cards[j].card) == asking->card &&
            atomic_load(&slot->cards[j].idle_bytes) > 0)
            return peer_file_lives(slot) ? &slot->cards[j] : NULL;
    return NULL;
}

/* The slot with the most to give; all of them together have *sum_bytes. PEERS_SLOTS: none. */
static size_t find_largest(const struct asking *asking, uint64_t *sum_bytes) {
    uint64_t most_bytes = 0;
    size_t largest = PEERS_SLOTS;
    *sum_bytes = 0;
    for (size_t i = 0; i < PEERS_SLOTS; i++) {
        struct peer_card *card = card_in(asking, i);
        uint64_t bytes = card ? min_u64(atomic_load(&card->idle_bytes), MOST_BYTES) : 0;
        *sum_bytes += bytes;
        if (bytes > most_bytes)
            largest = i, most_bytes = bytes;
    }
    return largest;
}

/* False: it has not answered in time. */
static bool wait_for(struct peer_slot *slot, unsigned asked, uint64_t end_ns) {
    for (;;) {
        unsigned answered = atomic_load(&slot->answered);
        uint64_t now_ns = clock_ns();
        if ((int)(answered - asked) >= 0)
            return true;
        if (now_ns >= end_ns || !peer_file_lives(slot))
            return false;
        struct timespec time = {0, (long)min_u64(end_ns - now_ns, ALIVE_NS)};
        syscall(SYS_futex, &slot->answered, FUTEX_WAIT, answered, &time, NULL, 0);
    }
}

static uint64_t ask(const struct asking *asking, struct peer_slot *slot, struct peer_card *card) {
    uint64_t before_bytes = atomic_load(&card->gave_bytes);
    atomic_store(&card->asker, (uint64_t)getpid());
    atomic_store(&card->wanted_bytes, (uint64_t)asking->lacking_bytes);
    unsigned asked = atomic_fetch_add(&slot->asked, 1) + 1;
    syscall(SYS_futex, &slot->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    if (!wait_for(slot, asked, asking->end_ns)) {
        uint64_t wanted_bytes = (uint64_t)asking->lacking_bytes;
        atomic_compare_exchange_strong(&card->wanted_bytes, &wanted_bytes, 0);
        atomic_store(&slot->late, 1);
        return 0;
    }
    return min_u64(atomic_load(&card->gave_bytes) - before_bytes, MOST_BYTES);
}

static void tell(struct device *device, uint64_t pid, uint64_t bytes) {
    struct vramgc_giver *out = &device->out->giver;
    struct process_stat giver = process_stat(pid);
    lock_take(&self.lock);
    text_copy(out->name, sizeof out->name, giver.name);
    out->several |= out->pid && out->pid != pid;
    out->pid = pid;
    lock_give(&self.lock);
    figure_add(&device->out->stats.peer_bytes, bytes);
}

static uint64_t ask_all(struct asking *asking) {
    uint64_t given_bytes = 0, sum_bytes;
    size_t largest;
    while (asking->lacking_bytes > 0 && clock_ns() < asking->end_ns &&
           (largest = find_largest(asking, &sum_bytes)) < PEERS_SLOTS) {
        struct peer_slot *slot = peer_file_slot(largest);
        struct peer_card *card = card_in(asking, largest);
        uint64_t pid = slot ? peer_file_pid(slot) : 0;
        uint64_t bytes = slot && card ? ask(asking, slot, card) : 0;
        asking->tried[largest] = true;
        asking->lacking_bytes -= (int64_t)bytes;
        given_bytes += bytes;
        if (bytes)
            tell(asking->device, pid, bytes);
    }
    return given_bytes;
}

/* What the driver has free, and is idle here, is no peer's to give. A request that would not fit
 * even then takes nothing from anybody. */
static bool is_worth_it(struct asking *asking, uint64_t bytes) {
    struct meminfo reading;
    uint64_t sum_bytes;
    if (find_largest(asking, &sum_bytes) == PEERS_SLOTS || asking->device != device_current() ||
        meminfo_read(&reading) != CUDA_SUCCESS || MUTANT(limit_ignored, reading.limited_bytes, 0))
        return false;
    asking->lacking_bytes = (int64_t)bytes - (int64_t)reading.free_bytes -
                            (int64_t)device_idle_page_bytes(asking->device);
    return asking->lacking_bytes > 0 &&
           MUTANT(asked_in_vain, sum_bytes >= (uint64_t)asking->lacking_bytes, true);
}

bool peers_after_oom(struct device *device, uint64_t bytes) {
    if (!device || !peer_file_own())
        return false;
    uint64_t start_ns = clock_ns();
    struct asking asking = {.device = device, .card = card_of(device)};
    asking.end_ns = start_ns + MUTANT(peer_waited_for, PATIENCE_NS, 10 * SECOND_NS);
    if (!asking.card || !is_worth_it(&asking, bytes))
        return false;
    uint64_t given_bytes = ask_all(&asking);
    figure_add(&device->out->stats.peer_waits, 1);
    figure_add(&device->out->stats.peer_wait_ns, clock_ns() - start_ns);
    return given_bytes > 0;
}

/* --- who is asked --- */

static uint64_t reclaimed_bytes(const struct device *device) {
    return figure_get(&device->out->stats.reclaimed_bytes);
}

/* It has nothing on the card. */
static bool is_parked(void) {
    return MUTANT(parked_gives, parked_now(), false);
}

/* An ask that comes later waits for the next look. */
void peers_look_begins(void) {
    struct peer_slot *own = peer_file_own();
    for (unsigned i = 0; own && i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        bool wanted = device && atomic_exchange(&own->cards[i].wanted_bytes, 0);
        self.askers[i] = wanted && !is_parked() ? atomic_load(&own->cards[i].asker) : 0;
        self.reclaimed_bytes[i] = device ? reclaimed_bytes(device) : 0;
    }
}

uint64_t peers_asker(const struct device *device) {
    return self.askers[device_index(device)];
}

/* Without a Python of our own nobody empties PyTorch's cache. */
static uint64_t idle_bytes(struct device *device) {
    uint64_t of_pool = __atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED);
    uint64_t idle = device_vm(device)   ? device_idle_page_bytes(device)
                    : python_is_there() ? device_releasable_bytes(device)
                                        : 0;
    return idle + of_pool;
}

static void publish(struct peer_card *card, struct device *device) {
    unsigned i = device_index(device);
    if (self.askers[i])
        atomic_fetch_add(&card->gave_bytes, reclaimed_bytes(device) - self.reclaimed_bytes[i]);
    self.askers[i] = 0;
    atomic_store(&card->idle_bytes, is_parked() ? 0 : idle_bytes(device));
    atomic_store(&card->card, card_of(device));
}

void peers_look_ends(unsigned asked) {
    struct peer_slot *own = peer_file_own();
    bool any = false;
    if (!own)
        return;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        any = any || self.askers[i];
        if (device)
            publish(&own->cards[i], device);
    }
    if (any | atomic_exchange(&own->late, 0))
        answer(own, asked);
    else
        atomic_store(&own->answered, asked);
}
