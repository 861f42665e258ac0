/* mode_table.h: which mode VRAMGC_MODE=auto becomes, and why, in one line: from one table. Pure. */
#pragma once

#include "base/options.h"
#include "base/proof.h"

#include <stdbool.h>

enum { MODE_WHY_BYTES = 192 };

/* Of a PyTorch that is newer than what was tried: are its block events the known ones? */
enum mode_events { EVENTS_NOT_YET, EVENTS_FIT, EVENTS_DIFFER };

struct mode_facts {
    enum option_mode wish;      /* VRAMGC_MODE */
    const char *torch;          /* PyTorch's version, "" when not known; not NULL */
    const char *alloc_conf;     /* the setting that PyTorch's allocator reads; not NULL */
    int driver;                 /* the driver's version, such as 13000; 0: not known */
    const char *driver_version; /* and its own name for it: driver_version_read; not NULL */
    bool wsl;                   /* Windows Subsystem for Linux */
    bool addresses_limited;     /* ulimit -v */
    bool own_pool;           /* cudaMallocAsync is served by a pool of ours: mode_wants_own_pool */
    bool aimdo;              /* comfy-aimdo is loaded: torch_has_aimdo */
    const char *interposer;  /* another that compact would go round: its file; "" none, not NULL */
    bool maps;               /* all devices say that they support virtual memory management */
    enum proof_state proof;  /* that they were seen to bear it: the least of what is known of one */
    unsigned least_proven;   /* those of which that is known: a bit for each device */
    const char *unproven;    /* why the launcher could not have them proven, or ""; not NULL */
    unsigned passed, failed; /* self-tests so far: a bit for each device */
    enum mode_events events;
};

struct mode_choice {
    enum option_mode mode;    /* never MODE_AUTO */
    bool driver_pool;         /* why: PyTorch allocates from the driver's pool */
    bool needs_proof;         /* why: `vramgc prove` has not been run for this card and driver */
    bool keeps_steps;         /* mode flush: of what PyTorch unmaps (vm/steps.c) */
    char why[MODE_WHY_BYTES]; /* one line, without the mode */
};

/* facts may not be NULL. */
struct mode_choice mode_choose(const struct mode_facts *facts);
