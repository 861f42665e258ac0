/* peer_file.h: the one small file by which the programs of a user that run under vramgc ask each
 * other for idle memory (govern/peer_programs.h). Each has a slot. What stands in another's slot
 * may be anything: it is the same user's, and no more than that is relied upon. */
#pragma once

#include "base/base.h"
#include "vramgc_format.h"

/* More programs than a card has room for: a CUDA context alone takes hundreds of MiB. */
enum { PEERS_SLOTS = 64 };

struct peer_card {
    _Atomic uint64_t card;         /* which: of its bus id; 0: none */
    _Atomic uint64_t idle_bytes;   /* what the owner could give, at its latest look */
    _Atomic uint64_t wanted_bytes; /* by another, until the owner has seen it */
    _Atomic uint64_t asker;        /* that one's process id */
    _Atomic uint64_t gave_bytes;   /* all that the owner gave to others so far */
    _Atomic uint64_t held_bytes;   /* what is free once the owner is parked, at least */
};

enum { PEER_STAYS, PEER_WORKS }; /* what rests_since_ns may be besides a time */

struct peer_slot {
    _Atomic uint64_t owner; /* its process_key; 0: nobody's */
    atomic_uint asked;      /* goes up: the owner's thread sleeps on it (own_thread.h) */
    atomic_uint answered;   /* as asked was at the owner's latest look; askers sleep on it */
    atomic_uint late;       /* 1: somebody has asked in vain; until it answers */
    atomic_uint taking;     /* so many of its calls take memory just now (card/reading.h) */
    struct peer_card cards[VRAMGC_MAX_DEVICES];
    _Atomic uint64_t turn_ns; /* until then the owner takes what another left to it */
    /* By the process that may park the owner, while it lives (cli/park_idle.h). */
    _Atomic uint64_t parker;         /* its process_key */
    _Atomic uint64_t rests_since_ns; /* so long it has not used the card */
    _Atomic uint64_t park_for;       /* the process that asks for it to be parked; 0: none */
};

/* For a second; whoever still wants it says so again. */
static inline void peer_wants_turn(struct peer_slot *slot) {
    atomic_store(&slot->turn_ns, clock_ns() + SECOND_NS);
}

/* Takes a slot: a free one, that of an earlier program of this process, or of one that is gone.
 * NULL: there can be none, which is logged. For one thread, once. */
struct peer_slot *peer_file_join(void);

/* The calling process has none from now on; and a forked child never has. */
void peer_file_leave(void);
void peer_file_forget(void);

/* Slot i of all, whoever has it; and the own one. NULL: not joined, or left. */
struct peer_slot *peer_file_slot(size_t i);
struct peer_slot *peer_file_own(void);

/* For a process that has no slot, and only looks. False: it cannot. */
bool peer_file_look(void);

/* Who is just bringing a process back to a card, by its process_key; 0: nobody. Nobody else may
 * take memory meanwhile: NULL as with a slot. */
_Atomic uint64_t *peer_file_waking(void);

/* A large program comes back within 16 s (80 GiB at the 5 GB/s that others saw on an H100). */
#define PEER_WAKING_NS (60 * SECOND_NS)

/* A card's number in the file: the same for all processes. 0: its bus id is not known. */
uint64_t peer_file_card(const char *bus_id);

/* True: its owner is another process that lives; and which. */
bool peer_file_lives(const struct peer_slot *slot);
uint64_t peer_file_pid(const struct peer_slot *slot);

/* ---- how one asks: first for what they have idle, then for one of them to be parked ---- */

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

/* How much all of them have idle, and how much those hold that may be parked. */
uint64_t peer_idle_bytes(const struct peer_ask *ask);
uint64_t peer_parkable_bytes(const struct peer_ask *ask);

/* Waits for those that have the most, as far as that is needed; what they gave. */
uint64_t peer_ask_idle(struct peer_ask *ask);

/* Asks for the one to be parked that has rested longest, unless one is asked for already, and does
 * not wait. False: those that may be parked have not so much; they may also be at work. */
bool peer_ask_turn(struct peer_ask *ask);
