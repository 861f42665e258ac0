/* address.h: what a program is told about the addresses of paged segments. */
#pragma once

#include "base/base.h"

/* Where an address lies that belongs to a paged segment; false: it belongs to none. To the program
 * a segment is one allocation made by cudaMalloc in that context; or (mapped) what it has mapped of
 * an expandable segment, with one handle. */
struct address_info {
    unsigned device;
    uint64_t address, bytes; /* of the segment */
    uint64_t context;
    bool mapped;
};
bool address_lookup(uint64_t address, struct address_info *place);

/* Another device or a library is about to hold on to the physical memory of the range: its pages
 * stay where they are until the segment ends. False: they cannot be had. Addresses that are not
 * paged are fine. */
bool address_pin(uint64_t address, uint64_t bytes);
