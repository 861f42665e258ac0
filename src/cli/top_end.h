/* top_end.h: how `vramgc top` ends the chosen program: it asks first, and sends SIGTERM to that one
 * process of this user, and to no other that has its number by then. One that has got SIGTERM, and
 * stays, gets SIGKILL in the same way. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "show/top_view.h"

struct top_process {
    uint64_t pid, start_ticks;
};

struct top_end {
    bool asks, kills;
    struct top_process process;
    struct top_process *told; /* have got SIGTERM */
    size_t told_count;
    char name[64];
    char said[128]; /* until the next key; empty: nothing */
};

/* The chosen program; of none, and of another user's, it says so. */
void top_end_ask(struct top_end *end, const struct top_view *view);

/* The chosen program has got SIGTERM: next is SIGKILL. */
bool top_end_kills(const struct top_end *end, const struct top_view *view);

/* y ends it, any other key does not. */
void top_end_take(struct top_end *end, int key);

/* What is asked or said, in so many columns; empty: nothing. */
void top_end_words(const struct top_end *end, size_t columns, struct text *out);

void top_end_free(struct top_end *end);
