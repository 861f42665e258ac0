/* prove_card.h: whether a card with its driver bears the page engine, found out and written down
 * in the file of a proof (base/proof.h): beside its name, then renamed, readable by its owner only.
 * Part of the command. */
#pragma once

#include "prove/child.h"

/* Exit statuses, the worst last. Not run: no driver, no device, or it is busy. */
enum { PROVE_PASSED = 0, PROVE_FAILED = 1, PROVE_NOT_RUN = 3 };

/* Told while it runs; end may be NULL. */
struct prove_telling {
    void (*begin)(int device, const struct prove_card *card); /* before anything is taken */
    child_tell *row;
    void (*end)(const char *path);                                      /* of the proof */
    void (*not_tried)(int device, const char *why, bool others_use_it); /* -1: none can be */
};

struct prove_wish {
    int device;         /* as the driver numbers them; -1: all */
    bool only_unproven; /* leave out cards that have an answer already */
    bool park;          /* whether a program can be parked is asked, too */
};

/* The key of a card that NVML names. version: as cuDriverGetVersion tells. */
void prove_key(const char *card, int version, struct proof_key *key);

/* The card of that key has an answer to what is wished, passed or failed. */
bool prove_is_answered(const struct proof_key *key, const struct prove_wish *wish);

/* version: of vramgc, for the proof. */
int prove_run(const struct prove_wish *wish, const char *version,
              const struct prove_telling *telling);

/* Tell of, print or remove all proofs; how many there were. share: for a bug tracker, without the
 * lines that tell cards apart. */
size_t proof_each(bool (*visit)(const char *path, bool share), bool share);
size_t proof_show(bool share);
size_t proof_forget(void);

/* False for a proof of another engine, which does not count for this vramgc. */
bool proof_is_of_ours(unsigned long engine);
