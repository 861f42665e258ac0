/* peer_ask.h: how one asks the programs in the peer file for memory of a card: first for what they
 * have idle, then for one of them, that may be, to be parked. For the program itself, or for the
 * process that is to bring it back. */
#pragma once

#include "base/peer_file.h"

/* All peers together. On a busy machine a peer at rest was seen to answer within 0.3 to 6 ms. */
#define PEER_PATIENCE_NS (200 * MILLISECOND_NS)

struct peer_ask {
    uint64_t card, asker; /* for which process */
    uint64_t end_ns;      /* nobody is waited for longer */
    int64_t lacking_bytes;
    void (*tell)(const struct peer_ask *ask, uint64_t pid, uint64_t bytes); /* who gave; or NULL */
    void *with;
    bool waits; /* for one that may be parked to end its job, too */
    bool tried[PEERS_SLOTS];
    uint64_t parks_pid, parks_bytes; /* whom peer_ask_turn asked last, and what that one holds */
};

/* What all of them have idle, and what those hold that may be parked. */
uint64_t peer_idle_bytes(const struct peer_ask *ask);
uint64_t peer_parkable_bytes(const struct peer_ask *ask);

/* Waits for those that have the most, as far as that is needed; what they gave. */
uint64_t peer_ask_idle(struct peer_ask *ask);

/* Asks for the one to be parked that has rested longest, unless one is asked for already, and does
 * not wait. False: those that may be parked have not so much; they may also be at work. */
bool peer_ask_turn(struct peer_ask *ask);
