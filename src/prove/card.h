/* card.h: which card this is, and whether it is idle enough to be tried. */
#pragma once

#include "base/proof.h"
#include "prove/driver_calls.h"

/* A desktop is left so much to work with. One that got none died:
 * https://github.com/NVIDIA/egl-wayland/issues/185 */
enum { CARD_SPARE_MIB = 512 };

struct prove_card {
    char name[96], bus[32];
    struct proof_key key;
    size_t free_bytes, total_bytes; /* while our own context is there */
    bool simulated;
    bool display;   /* a desktop may live on it */
    bool full;      /* busy, for want of memory */
    bool others;    /* busy, for others use it */
    char user[64];  /* the process that has most of it, and how much; "": none is known */
    char busy[160]; /* why it cannot be tried now; "": it can */
};

/* In a child: opens the device, and fills in what is known. False, with the reason in `busy`. */
bool card_look(int device, struct prove_card *card);
