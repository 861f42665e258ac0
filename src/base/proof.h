/* proof.h: the proof that a card with its driver bears the page engine: where `vramgc prove` keeps
 * it, and whether there is one; and the driver's version as users know it: 580.82.07, where CUDA
 * counts 13.0. The library reads it once at start: libc only, nothing allocated.
 * It must believe no file that others could have written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum { DRIVER_VERSION_BYTES = 32 };

/* Of the driver in the kernel; "" where it does not tell, as under WSL. */
void driver_version_read(char *out, size_t capacity);

/* The branch of drivers that brought this CUDA (13000): 580; 0: not known. */
int driver_branch(int cuda_version);

/* "580.82.07"; where that is "", "580" or "for CUDA 14.0". */
void driver_version_say(struct text *text, int cuda_version, const char *version);

/* "580.82.07 (CUDA 13.0)" and so on. */
void driver_version_say_both(struct text *text, int cuda_version, const char *version);

/* ---- the proof ---- */

/* Its last line: a file that was cut short is no proof. */
#define PROOF_END "\nend\n"

/* A card's number has 40 letters ("GPU-" and a UUID); a driver's version has under 20. */
enum { PROOF_CARD_BYTES = 48, PROOF_DRIVER_BYTES = 64, PROOF_HEAD_BYTES = 1024 };

/* A proof is for a card, its driver and an engine. */
struct proof_key {
    char card[PROOF_CARD_BYTES];     /* "GPU-01020304-...", from its 16 bytes */
    char driver[PROOF_DRIVER_BYTES]; /* "13.0 580.82.07" */
    unsigned engine;                 /* VM_VERSION */
    int cuda_version;                /* driver_version_say() tells both */
    char version[DRIVER_VERSION_BYTES];
};

/* version: as cuDriverGetVersion tells. The kernel's driver is asked for its own version. */
void proof_key(const void *uuid, int version, unsigned engine, struct proof_key *key);

/* The same for a card that NVML names. */
void proof_key_named(const char *card, int version, unsigned engine, struct proof_key *key);

/* A card's, in the state folder. False: the user has none, or its name is too long. */
bool proof_path(const char *card, char *path, size_t capacity);

enum proof_state {
    PROOF_NONE,
    PROOF_OTHER,  /* of another driver or engine */
    PROOF_FAILED, /* the card does not bear it */
    PROOF_PASSED,
};

/* Stands behind "unmap" where cuMemUnmap comes back only when running kernels are over. */
#define PROOF_UNMAP_WAITS "waits for kernels"

/* Do processes leave the card and come back as they were? Of several answers the worst counts. */
enum park_proof { PARK_PROVEN, PARK_UNTRIED, PARK_REFUTED };

struct proof {
    enum proof_state state;
    enum park_proof park;
    bool unmap_waits; /* with this driver; false where that is not known */
};

struct proof proof_look(const struct proof_key *key);
