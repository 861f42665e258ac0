/* webui.h: which web UI a program is, and its own settings that a report may name. */
#pragma once

#include <stdbool.h>

#include "vramgc_format.h"

struct webui {
    const char *word;       /* in the program's path, its arguments or its folder, in whatever case;
                               NULL: does not tell */
    const char *folder;     /* of files whose functions take memory; NULL: does not tell */
    const char *offload[2]; /* what has it move models to the host's memory, and then more of them;
                               NULL: nothing */
    const char *tiles;      /* what has its VAE work in tiles */
    const char *device;     /* its option that takes the number of a card; NULL: none */
    const char
        *collects; /* a sentence: what has it empty PyTorch's cache less often; NULL: nothing */
};

/* Never NULL: of a program that is none of them, what holds for scripts. */
const struct webui *webui_of(const struct vramgc_file *file);

/* What has it move more models to the host's memory than the options that it was given; NULL:
 * nothing. */
const char *webui_offload(const struct vramgc_file *file);

bool webui_is_comfyui(const struct vramgc_file *file);

/* What sets PyTorch a limit of memory. */
const char *webui_limit(const struct vramgc_file *file);

/* In parentheses, what has it pin less than the options that it was given; else empty. */
const char *webui_pins_less(const struct vramgc_file *file);
