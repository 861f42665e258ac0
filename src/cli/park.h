/* park.h: takes a process off the card and brings it back, and says so. The driver is open
 * (prove/park_driver.h). No signal reaches this process meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum park_how {
    PARK_KNOWN,  /* only where it is known that RAM, or the card, has room */
    PARK_QUIET,  /* the same, and nothing is said where there is none */
    PARK_FORCED, /* also where there is none, or nobody knows */
};

/* Whether it was done; else the process is as it was. asker: for which process; 0: none. */
bool park_process(uint64_t pid, enum park_how how, uint64_t asker);
bool wake_process(uint64_t pid, enum park_how how);
