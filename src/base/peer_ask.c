/* peer_ask.c: see peer_ask.h. Who asks may wait with the lock of PyTorch's allocator held: it must
 * wait for a peer that is gone not at all, and for one that let somebody wait in vain only when it
 * has answered. */
#include "base/peer_ask.h"

#include "base/process_stat.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How often it is looked whether the peer lives. */
#define ALIVE_NS (20 * MILLISECOND_NS)

/* More than any card has: what others say is no more than that. */
#define MOST_BYTES ((uint64_t)1 << 50)

/* Where it has the card; NULL: not, or it is not to be asked. */
static struct peer_card *card_in(const struct peer_ask *ask, size_t i) {
    struct peer_slot *slot = peer_file_slot(i);
    if (!slot || ask->tried[i] || atomic_load(&slot->late))
        return NULL;
    for (size_t j = 0; j < VRAMGC_MAX_DEVICES; j++)
        if (atomic_load(&slot->cards[j].card) == ask->card &&
            atomic_load(&slot->cards[j].idle_bytes) > 0)
            return peer_file_lives(slot) ? &slot->cards[j] : NULL;
    return NULL;
}

/* The slot with the most to give; all of them together have *sum_bytes. PEERS_SLOTS: none. */
static size_t find_largest(const struct peer_ask *ask, uint64_t *sum_bytes) {
    uint64_t most_bytes = 0;
    size_t largest = PEERS_SLOTS;
    *sum_bytes = 0;
    for (size_t i = 0; i < PEERS_SLOTS; i++) {
        struct peer_card *card = card_in(ask, i);
        uint64_t bytes = card ? min_u64(atomic_load(&card->idle_bytes), MOST_BYTES) : 0;
        *sum_bytes += bytes;
        if (bytes > most_bytes)
            largest = i, most_bytes = bytes;
    }
    return largest;
}

uint64_t peer_idle_bytes(const struct peer_ask *ask) {
    uint64_t sum_bytes;
    find_largest(ask, &sum_bytes);
    return sum_bytes;
}

/* False: it has not answered in time. */
static bool await_answer(struct peer_slot *slot, unsigned asked, uint64_t end_ns) {
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

static uint64_t ask_one(const struct peer_ask *ask, struct peer_slot *slot,
                        struct peer_card *card) {
    uint64_t before_bytes = atomic_load(&card->gave_bytes);
    atomic_store(&card->asker, ask->asker);
    atomic_store(&card->wanted_bytes, (uint64_t)ask->lacking_bytes);
    unsigned asked = atomic_fetch_add(&slot->asked, 1) + 1;
    syscall(SYS_futex, &slot->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    if (!await_answer(slot, asked, ask->end_ns)) {
        uint64_t wanted_bytes = (uint64_t)ask->lacking_bytes;
        atomic_compare_exchange_strong(&card->wanted_bytes, &wanted_bytes, 0);
        atomic_store(&slot->late, 1);
        return 0;
    }
    return min_u64(atomic_load(&card->gave_bytes) - before_bytes, MOST_BYTES);
}

uint64_t peer_ask_idle(struct peer_ask *ask) {
    uint64_t given_bytes = 0, sum_bytes;
    size_t largest;
    while (ask->lacking_bytes > 0 && clock_ns() < ask->end_ns &&
           (largest = find_largest(ask, &sum_bytes)) < PEERS_SLOTS) {
        struct peer_slot *slot = peer_file_slot(largest);
        struct peer_card *card = card_in(ask, largest);
        uint64_t pid = slot ? peer_file_pid(slot) : 0;
        uint64_t bytes = slot && card ? ask_one(ask, slot, card) : 0;
        ask->tried[largest] = true;
        ask->lacking_bytes -= (int64_t)bytes;
        given_bytes += bytes;
        if (bytes && ask->tell)
            ask->tell(ask, pid, bytes);
    }
    return given_bytes;
}

/* --- to be parked --- */

/* What the owner of a slot that may be parked holds of the card; 0: nothing, or it may not be. */
static uint64_t parkable_bytes(const struct peer_ask *ask, const struct peer_slot *slot) {
    uint64_t bytes = 1; /* it may not have told yet what it has taken */
    if (!slot || atomic_load(&slot->rests_since_ns) <= (ask->waits ? PEER_STAYS : PEER_WORKS) ||
        peer_file_pid(slot) == ask->asker || !peer_file_lives(slot) ||
        !process_key_lives(atomic_load(&slot->parker)))
        return 0;
    for (size_t j = 0; j < VRAMGC_MAX_DEVICES; j++)
        if (atomic_load(&slot->cards[j].card) == ask->card)
            bytes += min_u64(atomic_load(&slot->cards[j].held_bytes), MOST_BYTES);
    return bytes;
}

uint64_t peer_parkable_bytes(const struct peer_ask *ask) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < PEERS_SLOTS; i++)
        bytes += parkable_bytes(ask, peer_file_slot(i));
    return bytes;
}

bool peer_ask_turn(struct peer_ask *ask) {
    struct peer_slot *longest = NULL;
    uint64_t since_ns = UINT64_MAX, bytes = 0;
    bool asked = false;
    for (size_t i = 0; i < PEERS_SLOTS; i++) {
        struct peer_slot *slot = peer_file_slot(i);
        uint64_t parkable = parkable_bytes(ask, slot);
        uint64_t since = parkable ? atomic_load(&slot->rests_since_ns) : PEER_WORKS;
        bytes += parkable;
        asked = asked || (parkable && atomic_load(&slot->park_for));
        if (since > PEER_WORKS && since < since_ns)
            longest = slot, since_ns = since;
    }
    if ((int64_t)bytes < ask->lacking_bytes)
        return false;
    if (longest && !asked) {
        ask->parks_pid = peer_file_pid(longest);
        ask->parks_bytes = parkable_bytes(ask, longest);
        atomic_store(&longest->park_for, ask->asker);
    }
    return true;
}
