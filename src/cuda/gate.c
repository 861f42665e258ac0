/* gate.c: see gate.h. What the process holds and what it may still take make a sum that only others
 * change: so one reading serves many requests. */
#include "cuda/gate.h"

#include "base/lock.h"
#include "base/mutant.h"
#include "cuda/meminfo.h"

enum { MAX_CARDS = 16 };

struct known {
    int64_t sum_bytes; /* spare, and what this process held then */
    struct meminfo_age age;
};

static struct {
    struct lock lock;
    struct known cards[MAX_CARDS];
} self;

void gate_after_fork(void) {
    lock_force_open(&self.lock);
}

/* Of another moment than the reading: the lesser, for a moment. */
static bool read_card(unsigned card) {
    struct limit_own before, after;
    struct meminfo reading;
    if (!limit_own(&before) || meminfo_read(&reading) != CUDA_SUCCESS || !limit_own(&after))
        return false;
    int64_t own = (int64_t)min_u64(before.bytes, after.bytes);
    lock_take(&self.lock);
    self.cards[card] = (struct known){reading.spare_bytes + own, reading.age};
    lock_give(&self.lock);
    return true;
}

bool gate_has_room(uint64_t bytes) {
    struct limit_own own;
    bool room = true;
    enum meminfo_need need = MEMINFO_KNOWN;
    for (int readings = 0;; readings++) {
        if (!limit_own(&own) || own.device >= MAX_CARDS)
            return true;
        lock_take(&self.lock);
        struct known known = self.cards[own.device];
        lock_give(&self.lock);
        room = known.sum_bytes >= 0 && own.bytes + bytes <= (uint64_t)known.sum_bytes;
        need = room ? MEMINFO_KNOWN : MEMINFO_ANSWER;
        if (readings > 0 || meminfo_will_do(known.age, need))
            return MUTANT(gate_open, room, true);
        if (!read_card(own.device))
            return true;
    }
}
