/* shared_card.h: how a program shared its card, in words: what it left to others by its settings,
 * and what other programs under vramgc gave it. For report, page and `vramgc top`. */
#pragma once

#include "base/text.h"
#include "read/stats_file.h"

/* "head-room: 2.0 GiB stay free for others; cap: 8.0 GiB at most": what is in force, and was at the
 * end. Nothing, and false, where nothing is. */
bool shared_card_say_limits(struct text *text, const struct vramgc_limits *limits);

/* "lacked memory, and got 2.0 GiB from python (1234) in 3 ms": the time is the answers of all that
 * were asked. Nothing, and false, where none gave. */
bool shared_card_say_giver(struct text *text, const struct vramgc_file *file);
