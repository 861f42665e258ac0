/* parked.h: how much of which card a parked program needs to come back: noted in the state folder
 * when it leaves, for nobody tells afterwards. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARKED_CARDS = 16 };

struct parked {
    uint64_t pid, process_start;
    size_t count;
    struct {
        char bus_id[16];
        uint64_t bytes;
    } cards[PARKED_CARDS];
};

/* What NVML says that the process has; no card: it does not know. */
struct parked parked_look(uint64_t pid);
uint64_t parked_bytes(const struct parked *parked); /* of all cards */

/* What keeps it from being parked, as far as that can be known without the driver; NULL: nothing.
 * The driver says no more than a number, and "out of memory" of a divided card. */
const char *parked_obstacle(const struct parked *parked);

/* False: it cannot be noted, or is not of this life of the process. */
bool parked_write(const struct parked *parked);
bool parked_read(uint64_t pid, struct parked *out);
void parked_forget(uint64_t pid);

/* Whether each card has as much free. Else why not, in a few words. */
bool parked_fits(const struct parked *parked, char *why, size_t capacity);

/* Asks other programs for what lacks: what they have idle, then for one of them to be parked. */
void parked_ask(const struct parked *parked);
