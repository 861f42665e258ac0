/* peer_programs.c: see peer_programs.h. The one that asks waits with the lock of PyTorch's
 * allocator held: it must wait for no peer longer than its patience, for a peer that is gone not at
 * all, and for one that let somebody wait in vain only when it has answered. */
#include "govern/peer_programs.h"

#include "base/peer_file.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "card/reading.h"
#include "govern/python.h"
#include "govern/own_thread.h"
#include "track/process_state.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For one to be parked: a web UI's job takes minutes. Ctrl-C ends it. */
#define TURN_NS      (600 * SECOND_NS)
#define TURN_STEP_NS (20 * MILLISECOND_NS)
/* Others tell what they hold at their looks: twice SLOWEST_STEP_NS (background_thread.c). */
#define TOLD_NS SECOND_NS

static struct {
    struct lock lock; /* what is told of peers in the file */
    /* Of the look that is under way. */
    uint64_t askers[VRAMGC_MAX_DEVICES], reclaimed_bytes[VRAMGC_MAX_DEVICES];
} self;
CHILD_OPENS(self.lock);

void peers_begin(void) {
    if (settings_options()->peers == PEERS_OFF || settings_policy().mode != POLICY_ACT)
        return;
    struct peer_slot *slot = peer_file_join();
    if (!slot)
        return;
    wakeup_share(WAKEUP_LOOK, &slot->asked);
    gate_share((struct gate){peer_file_waking(), &slot->taking});
}

static void answer_asker(struct peer_slot *own, unsigned asked) {
    atomic_store(&own->answered, asked);
    syscall(SYS_futex, &own->answered, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void peers_end(void) {
    struct peer_slot *own = peer_file_own();
    peer_file_leave();
    if (own) /* whoever has asked */
        answer_asker(own, atomic_load(&own->asked));
}

void peers_forget(void) {
    wakeup_share(WAKEUP_LOOK, NULL);
    gate_share((struct gate){0});
    peer_file_forget();
}

static uint64_t peer_card(const struct device *device) {
    return peer_file_card(device->out->bus_id);
}

/* --- who asks --- */

static void tell_of_giver(const struct peer_ask *ask, uint64_t pid, uint64_t bytes) {
    struct device *device = ask->with;
    struct vramgc_giver *out = &device->out->giver;
    char name[sizeof out->name];
    program_of_process(pid, name, sizeof name);
    LOCKED(&self.lock);
    text_copy(out->name, sizeof out->name, name);
    out->several |= out->pid && out->pid != pid;
    out->pid = pid;
    figure_add(&device->out->stats.peer_bytes, bytes);
}

/* Memory that the driver has free, or that is idle here, is no peer's to give. False: it is not
 * known. */
static bool look_at_lack(struct peer_ask *ask, uint64_t bytes) {
    struct device *device = ask->with;
    struct meminfo reading;
    if (device != device_current() || meminfo_read(&reading) != CUDA_SUCCESS ||
        reading.limited_bytes)
        return false;
    ask->lacking_bytes =
        (int64_t)bytes - (int64_t)reading.free_bytes - (int64_t)device_idle_page_bytes(device);
    return true;
}

/* Another is parked, or comes to rest first. One that is parked itself meanwhile stands in the
 * driver at its next look, is seen there (asking), and comes back when the other rests. */
static bool wait_for_turn(struct peer_ask *ask, struct peer_slot *own, uint64_t bytes) {
    uint64_t now_ns = clock_ns(), end_ns = now_ns + TURN_NS, could_ns = now_ns;
    uint64_t *asking = parked_question_begins();
    bool comes = true;
    while (comes && ask->lacking_bytes > 0) {
        now_ns = clock_ns();
        peer_wants_turn(own);
        if (atomic_load(&own->park_for) || peer_ask_turn(ask))
            could_ns = now_ns;
        comes = !figure_get(&store_file()->stop_asked) && now_ns < end_ns &&
                now_ns - could_ns < TOLD_NS;
        sleep_ns(TURN_STEP_NS);
        comes = look_at_lack(ask, bytes) && comes;
    }
    parked_question_ends(asking);
    if (ask->lacking_bytes <= 0 && ask->parks_pid)
        tell_of_giver(ask, ask->parks_pid, ask->parks_bytes);
    return ask->lacking_bytes <= 0;
}

/* A request that would not fit even then takes nothing from anybody. */
bool peers_after_oom(struct device *device, uint64_t bytes) {
    struct peer_slot *own = peer_file_own();
    if (!device || !own)
        return false;
    uint64_t start_ns = clock_ns();
    struct peer_ask ask = {.card = peer_card(device),
                           .asker = (uint64_t)getpid(),
                           .tell = tell_of_giver,
                           .with = device,
                           .waits = settings_options()->park};
    ask.end_ns = start_ns + PEER_PATIENCE_NS;
    uint64_t idle = ask.card ? peer_idle_bytes(&ask) : 0;
    uint64_t parkable = ask.card ? peer_parkable_bytes(&ask) : 0;
    if (!(idle + parkable) || !look_at_lack(&ask, bytes) || ask.lacking_bytes <= 0)
        return false;
    bool enough = (int64_t)(idle + parkable) >= ask.lacking_bytes;
    if (!enough && !(ask.waits && parkable))
        return false;
    bool helped = enough && peer_ask_idle(&ask) > 0;
    if (ask.lacking_bytes > 0 && parkable)
        helped = wait_for_turn(&ask, own, bytes) || helped;
    figure_add(&device->out->stats.peer_waits, 1);
    figure_add(&device->out->stats.peer_wait_ns, clock_ns() - start_ns);
    return helped;
}

/* --- who is asked --- */

static uint64_t bytes_reclaimed(const struct device *device) {
    return figure_get(&device->out->stats.reclaimed_bytes);
}

/* An ask that comes later waits for the next look. */
void peers_look_begins(void) {
    struct peer_slot *own = peer_file_own();
    for (EACH_DEVICE(device)) {
        unsigned i = device_index(device);
        bool wanted = own && atomic_exchange(&own->cards[i].wanted_bytes, 0);
        self.askers[i] = wanted && !parked_now() ? atomic_load(&own->cards[i].asker) : 0;
        self.reclaimed_bytes[i] = bytes_reclaimed(device);
    }
}

uint64_t peers_asker(const struct device *device) {
    return self.askers[device_index(device)];
}

/* Without a Python of our own nobody empties PyTorch's cache. */
static uint64_t bytes_to_give(struct device *device) {
    uint64_t of_pool = __atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED);
    uint64_t idle = device_pages(device) ? device_idle_page_bytes(device)
                    : python_is_there()  ? device_releasable_bytes(device)
                                         : 0;
    return idle + of_pool;
}

static void publish_card(struct peer_card *card, struct device *device) {
    unsigned i = device_index(device);
    if (self.askers[i])
        atomic_fetch_add(&card->gave_bytes, bytes_reclaimed(device) - self.reclaimed_bytes[i]);
    self.askers[i] = 0;
    atomic_store(&card->idle_bytes,
                 parked_now() ? 0 : bytes_to_give(device)); /* none on the card */
    atomic_store(&card->held_bytes, device_own_bytes(device));
    atomic_store(&card->card, peer_card(device));
}

void peers_look_ends(unsigned asked) {
    struct peer_slot *own = peer_file_own();
    bool any = false;
    if (!own)
        return;
    for (EACH_DEVICE(device)) {
        any = any || self.askers[device_index(device)];
        publish_card(&own->cards[device_index(device)], device);
    }
    if (any | atomic_exchange(&own->late, 0))
        answer_asker(own, asked);
    else
        atomic_store(&own->answered, asked);
}
