/* webui.h: which web UI a program is, and its own settings that a report may name. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "vramgc_format.h"

struct webui {
    const char *offload[2]; /* what has it move models to the host's memory, and then more of them;
                               NULL: nothing */
    bool makes_room;        /* for its VAE by itself, whatever that says */
    const char *tiles;      /* what has its VAE work in tiles */
    const char *retry;      /* how its code should try again; NULL: the user cannot change that */
    const char *device;     /* its option that takes the number of a card; NULL: none */
    const char *collects;   /* a sentence: what has it empty PyTorch's cache less often; NULL:
                               nothing */
    const char *keeps;      /* a sentence: what has it leave models on the card; NULL: nothing */
    const char *limit;      /* its setting that limits PyTorch's memory; NULL: none */
    const char *no_pool;    /* what keeps it from cudaMallocAsync; NULL: nothing of its own */
    const char *pins_less;  /* its option that has it pin less; NULL: none */
};

/* Never NULL: of a program that is none of them, what holds for scripts. */
const struct webui *webui_of(const struct vramgc_file *file);

/* It makes images, as far as its functions tell. */
bool webui_draws(const struct vramgc_file *file);

/* diffusers' pipe.to("cuda") was called, which puts all models on the card at once. */
bool webui_loads_pipeline(const struct vramgc_file *file);

/* Its option that moves more models to the host's memory than those that it was given do; NULL:
 * there is none. */
const char *webui_offload(const struct vramgc_file *file);

/* "Lock less RAM", and in parentheses what does that, if it was not given already. */
void webui_say_pins_less(struct text *text, const struct vramgc_file *file);
