/* ring.c: see ring.h. It must keep the rule of the rings: an entry's sequence is written last. */
#include "base/ring.h"

#include "vramgc_format.h"

typedef uint64_t __attribute__((may_alias)) word;
enum { SEQUENCE, TIME_NS };

static word *ring_slot(const struct ring *ring, uint64_t index) {
    return (word *)ring->slots + index % ring->capacity * (ring->entry_bytes / sizeof(word));
}

/* The slot belongs to this writer until the entry is complete, and no reader takes it for valid
 * meanwhile. False: another writer, a whole round earlier or later, has it; this entry is lost
 * instead of the one it would have overwritten, so the count of lost records stays right. */
static bool begin_entry(word *sequence, uint64_t index) {
    uint64_t seen = __atomic_load_n(sequence, __ATOMIC_RELAXED);
    while (seen <= index)
        if (__atomic_compare_exchange_n(sequence, (word *)&seen, VRAMGC_BEING_WRITTEN, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
    return false;
}

/* Word by word and atomically, because a reader may look at the same moment; whether it saw one
 * whole entry the sequence tells it: who sees a new word sees BEING_WRITTEN after it, at least. */
static void copy_words(word *to, const word *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        __atomic_store_n(to + i, __atomic_load_n(from + i, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

uint64_t ring_put(const struct ring *ring, const void *entry) {
    uint64_t index = __atomic_fetch_add(ring->written, 1, __ATOMIC_RELAXED);
    word *slot = ring_slot(ring, index);
    if (index >= ring->capacity)
        __atomic_fetch_add(ring->lost, 1, __ATOMIC_RELAXED);
    if (begin_entry(slot + SEQUENCE, index)) {
        copy_words(slot + TIME_NS, (const word *)entry + TIME_NS,
                   ring->entry_bytes / sizeof *slot - TIME_NS);
        __atomic_store_n(slot + SEQUENCE, index + 1, __ATOMIC_RELEASE);
    }
    return index + 1;
}

void ring_put_again(const struct ring *ring, const void *entry) {
    const word *from = entry;
    word sequence = from[SEQUENCE], expected = sequence;
    word *slot = ring_slot(ring, sequence - 1);
    if (!__atomic_compare_exchange_n(slot + SEQUENCE, &expected, VRAMGC_BEING_WRITTEN, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    copy_words(slot + TIME_NS, from + TIME_NS, ring->entry_bytes / sizeof *slot - TIME_NS);
    __atomic_store_n(slot + SEQUENCE, sequence, __ATOMIC_RELEASE);
}

bool ring_get(const struct ring *ring, uint64_t index, void *out) {
    const word *slot = ring_slot(ring, index);
    if (__atomic_load_n(slot + SEQUENCE, __ATOMIC_ACQUIRE) != index + 1)
        return false;
    copy_words(out, slot, ring->entry_bytes / sizeof *slot);
    return __atomic_load_n(slot + SEQUENCE, __ATOMIC_RELAXED) == index + 1;
}
