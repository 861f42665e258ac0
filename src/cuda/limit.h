/* limit.h: the card as the program is to see it: VRAMGC_HEADROOM keeps some of it free for others,
 * VRAMGC_CAP makes it smaller. All that is asked of the driver about memory passes here, so that
 * the program and the rest of this library know that card only. It must not ask the driver. */
#pragma once

#include "base/base.h"
#include "vramgc_format.h"

/* What this process holds on the card that is current, what it is just asking for included where
 * its pages are counted before they come. moves: another number after each call that took or gave
 * some; 0: another thread is in one. */
struct limit_own {
    unsigned device;
    uint64_t bytes, moves;
};

/* From now on these hold, which another process may change at any moment. own: false where no card
 * is current or nothing is recorded. Called again when they have moved. */
void limit_begin(const struct vramgc_limits *in_force, bool (*own)(struct limit_own *));

bool limit_is_on(void);
uint64_t limit_words(void); /* another number when they have changed; 0: none */
bool limit_own(struct limit_own *own);

/* How much of what the driver says a process that holds so much may still take, with the head-room
 * and without it. Less than 0: it has more than it may. */
struct limit_spare {
    int64_t bytes, before_headroom_bytes;
};

struct limit_spare limit_spare(uint64_t free_bytes, uint64_t total_bytes, uint64_t own_bytes);

/* The size of a card that the driver says has total_bytes. */
uint64_t limit_total(uint64_t total_bytes);
