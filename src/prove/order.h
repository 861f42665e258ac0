/* order.h: checks: when work is over, page calls beside it, and captures. Rows of check_table.c. */
#ifndef PROVE_ORDER_H
#define PROVE_ORDER_H

#include "prove/check.h"

enum outcome check_event(struct text *said);
enum outcome check_context_event(struct text *said);
enum outcome check_stream_gone(struct text *said);
enum outcome check_unmap_beside(struct text *said);
enum outcome check_map_beside(struct text *said);
enum outcome check_relaxed(struct text *said);
enum outcome check_captures(struct text *said);

#endif
