/* threshold.h: whether more of a card is in use than the threshold allows, in percent. At it the
 * card is not above it. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A card of unknown size never is. */
static inline bool card_is_above(double percent, uint64_t total_bytes, uint64_t used_bytes) {
    return total_bytes && (double)used_bytes * 100 > percent * (double)total_bytes;
}

/* How much may be in use. */
static inline uint64_t card_at_threshold(double percent, uint64_t total_bytes) {
    return (uint64_t)((double)total_bytes * percent / 100);
}
