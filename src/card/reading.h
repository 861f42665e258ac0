/* reading.h: what the current card has: all of this library that asks the driver for it, or refuses
 * because of it, does so by this file.
 *
 *     the driver's free --limits--> what the program may know --reading, generation--> known
 *                                                              (or beside: off by what moved)
 *
 * The limits: VRAMGC_HEADROOM keeps some of the card free for others, VRAMGC_CAP makes it smaller.
 * The invariant: nobody, the program included, knows another card than that one. */
#pragma once

#include "base/base.h"
#include "cuda/cuda_api.h"
#include "vramgc_format.h"

/* --- the limits; nothing of these asks the driver --- */

/* How much this process holds of a card by somebody's count, what it is just asking for included
 * where its pages are counted before they come; and the generation of that. */
struct card_own {
    unsigned device;
    uint64_t bytes, moves;
};

/* From now on these hold, which another process may change at any moment. own: false where no card
 * is current or nothing is recorded. Called again when they have moved. */
void limit_begin(const struct vramgc_limits *in_force, bool (*own)(struct card_own *));

bool limit_is_on(void);
uint64_t limit_words(void); /* another number when they have changed; 0: none */

/* How much of what the driver says a process that holds so much may still take, with the head-room
 * and without it. Less than 0: it has more than it may. */
struct limit_spare {
    int64_t bytes, before_headroom_bytes;
};

struct limit_spare limit_spare(uint64_t free_bytes, uint64_t total_bytes, uint64_t own_bytes);

/* The size of a card that the driver says has total_bytes. */
uint64_t limit_total(uint64_t total_bytes);

/* --- readings --- */

/* When a reading ended, and what readings cost by then. All zero: there is none. */
struct meminfo_age {
    uint64_t end_ns, cost_ns;
    bool beside; /* memory of this process came or went meanwhile: it may be off by that */
};

/* free_bytes and total_bytes are the program's. */
struct meminfo {
    size_t free_bytes, total_bytes;
    struct meminfo_age age;
    int64_t spare_bytes;     /* as free_bytes; less than 0: the process has more than it may */
    uint64_t limited_bytes;  /* free on the card, but not for this process */
    uint64_t headroom_bytes; /* of them, kept for others */
};

/* For what a reading is wanted: for a decision that the driver corrects where it was wrong; for an
 * answer to the program, which has to be refused or told something; to be made in any case. */
enum meminfo_need { MEMINFO_KNOWN, MEMINFO_ANSWER, MEMINFO_ANEW };

/* Asks the driver once. The answer of the call. */
CUresult meminfo_read(struct meminfo *reading);

/* Counts what this process holds. False: it cannot be said. */
typedef bool card_count_t(void *of, struct card_own *own);

/* Asks the driver between two counts, so that both are of one moment; where something moved
 * meanwhile as often as `readings` says, and is told in its age then. *held_bytes: the lesser
 * count, so that rather less is free than more. Suspends nothing. */
CUresult meminfo_read_beside(struct meminfo *reading, unsigned readings, card_count_t *count,
                             void *of, uint64_t *held_bytes);

/* The driver's free and total become those that the program is told. */
void meminfo_limit(struct meminfo *reading);

/* Of a reading that was begun then and has just ended. */
struct meminfo_age meminfo_age(uint64_t start_ns);

/* True: one of that age will do; made beside others' calls it is no answer, however young. */
bool meminfo_will_do(struct meminfo_age age, enum meminfo_need need);

/* --- the gate: a request for memory of the card is refused where the limits leave no room for it,
 * as by the driver of a card that is so full. All that follows a refusal then follows by itself. It
 * must cost nothing where neither is set. --- */

/* The words that others see. waking: who is just bringing a parked program back, for which nobody
 * may take what it needs, by its process_key; 0: nobody. taking: how many calls of this process
 * take memory just now. NULL: nobody sees it. */
struct gate {
    _Atomic uint64_t *waking;
    atomic_uint *taking;
};
void gate_share(struct gate seen);
extern _Atomic(atomic_uint *) gate_taking;

/* Around a call that takes memory of the card. Waits while a program is brought back, and the one
 * who does it lives: a driver that runs out of memory there never brings it back. What it returns
 * is for gate_leave. */
void gate_wait(atomic_uint *taking);

static inline atomic_uint *gate_enter(void) {
    atomic_uint *taking = atomic_load_explicit(&gate_taking, memory_order_acquire);
    if (taking)
        gate_wait(taking);
    return taking;
}

static inline void gate_leave(atomic_uint *taking) {
    if (taking)
        atomic_fetch_sub(taking, 1);
}

/* True: the current card is to give so much more than this process holds. It may ask the driver
 * what is free, no more often than a reading will do. Any thread; no lock is held. */
bool gate_has_room(uint64_t bytes);

static inline bool gate_allows(uint64_t bytes) {
    return LIKELY(!limit_is_on()) || gate_has_room(bytes);
}

/* cuMemCreate of device memory. uncounted_bytes: of it, what is not counted as held yet. */
CUresult gate_create(CUmemGenericAllocationHandle *handle, uint64_t bytes,
                     const CUmemAllocationProp *properties, uint64_t uncounted_bytes);
