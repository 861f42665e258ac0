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

/* False: the process is as it was. asker: the process that it is for; 0: none. */
bool park_process(uint64_t pid, enum park_how how, uint64_t asker);
bool wake_process(uint64_t pid, enum park_how how);

/* Of a parked program: whether the card has room for it. */
bool wake_fits(uint64_t pid);

/* Of a parked program: asks others for what it lacks to come back: what they have idle, then for
 * one of them to be parked. */
void parked_ask(uint64_t pid);

/* It has ended: what was noted of it goes. */
void parked_forget(uint64_t pid);
