/* graphs.h: captures beside the soak: a stream is captured while pages move, in each mode in turn,
 * and the graph is replayed after pages have moved around what it uses. */
#pragma once

#include "prove/check.h"
#include "vm/vm.h"

/* Whether anything is captured: the engine asks that, too. */
bool graphs_capturing(void);

/* In a thread of its own: one graph after the other, until that time and until each mode had its
 * own. */
void graphs_run(struct vm *vm, uint64_t end_ns);

/* They have come to an end, or were never begun. */
bool graphs_begin(void);
bool graphs_over(void);

/* None is captured from now on: a card that has failed has nothing more to show. */
void graphs_stop(void);

/* The captures and replays that worked, or the first call that failed. */
enum outcome graphs_judge(struct text *said);
