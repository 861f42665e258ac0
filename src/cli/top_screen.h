/* top_screen.h: the live view of `vramgc top` on a terminal, by ncurses. It is the only user of
 * ncurses; a build without it has none of this. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "show/top_page.h"

/* Why there is no live view; NULL: there is one. */
const char *top_screen_missing(void);

/* Shows the view until q is pressed or a signal, which the caller has caught, is in *stopped;
 * false: the terminal cannot show it. */
bool top_screen_show(struct top_view *view, const uint64_t *pids, size_t pid_count,
                     uint64_t every_ns, const volatile sig_atomic_t *stopped);
