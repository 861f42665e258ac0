/* gate.c: see gate.h. What the process holds and what it may still take make a sum that only others
 * change: so one reading serves many requests. */
#include "cuda/gate.h"

#include "base/lock.h"
#include "base/peer_file.h"
#include "base/process_stat.h"
#include "cuda/meminfo.h"

/* As many as a statistics file has (VRAMGC_MAX_DEVICES). */
enum { MAX_CARDS = 16 };

struct known {
    int64_t sum_bytes; /* spare, and what this process held then */
    struct meminfo_age age;
};

static struct {
    struct lock lock;
    struct known cards[MAX_CARDS];
} self;
CHILD_OPENS(self.lock);

_Atomic(_Atomic uint64_t *) gate_waking;

void gate_share(_Atomic uint64_t *waking) {
    atomic_store(&gate_waking, waking);
}

void gate_wait_for(_Atomic uint64_t *waking) {
    uint64_t end_ns = clock_ns() + PEER_WAKING_NS, who;
    while ((who = atomic_load(waking)) && clock_ns() < end_ns && process_key_lives(who))
        sleep_ns(MILLISECOND_NS);
    if (who) /* killed in the middle, or it hangs: nobody waits for it once more */
        atomic_compare_exchange_strong(waking, &who, 0);
}

/* Both of this moment; false: there is no card of which anything is known. */
static bool look(struct limit_own *own, struct known *known) {
    if (!limit_own(own) || own->device >= MAX_CARDS)
        return false;
    lock_take(&self.lock);
    *known = self.cards[own->device];
    lock_give(&self.lock);
    return true;
}

static bool has_room(const struct limit_own *own, const struct known *known, uint64_t bytes) {
    return known->sum_bytes >= 0 && own->bytes + bytes <= (uint64_t)known->sum_bytes;
}

/* What the process holds may change beside the reading: the lesser counts. */
static bool read_card(unsigned card) {
    struct limit_own before, after;
    struct meminfo reading;
    if (!limit_own(&before) || meminfo_read(&reading) != CUDA_SUCCESS || !limit_own(&after))
        return false;
    int64_t own = (int64_t)min_u64(before.bytes, after.bytes);
    reading.age.beside = !before.moves || before.moves != after.moves;
    lock_take(&self.lock);
    self.cards[card] = (struct known){reading.spare_bytes + own, reading.age};
    lock_give(&self.lock);
    return true;
}

bool gate_has_room(uint64_t bytes) {
    struct limit_own own;
    struct known known;
    if (!look(&own, &known))
        return true;
    enum meminfo_need need = has_room(&own, &known, bytes) ? MEMINFO_KNOWN : MEMINFO_ANSWER;
    if (!meminfo_will_do(known.age, need) && (!read_card(own.device) || !look(&own, &known)))
        return true;
    return has_room(&own, &known, bytes);
}
