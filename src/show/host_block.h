/* host_block.h: what the program had of the host's memory, in text and as figures. */
#pragma once

#include <stdio.h>

#include "read/emit.h"
#include "base/text.h"
#include "read/stats_file.h"

enum { HOST_WORDS = 768 };

/* What it had, and what vramgc gave back; nothing where it had little. */
void host_words(struct text *text, const struct stats_file *record);

void host_block(FILE *out, const struct stats_file *record);

/* Figures of a look, as everybody calls them. */
struct host_figure {
    const char *name, *help;
    size_t offset; /* in struct vramgc_host_look */
    bool none_is_0;
};

enum { HOST_FIGURES = 8 };
extern const struct host_figure host_figures[HOST_FIGURES];
uint64_t host_figure(const struct host_figure *figure, const struct vramgc_host_look *look);

void host_fields(struct emit *emit, const struct vramgc_host *host);
