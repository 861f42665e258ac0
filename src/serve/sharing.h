/* sharing.h: what a program is told about the addresses of paged segments, and what other devices
 * and other processes may do with them: pages of the engine are mapped memory, which peer access
 * alone does not open. To the program a segment is memory of cudaMalloc: one allocation of one
 * device. */
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

/* One device may access the memory of another from now on. False: not all that is there. */
bool peer_access_enabled(unsigned accessing, unsigned owner);

/* A device has a page engine now; or was reset. */
void peer_access_vm_opened(unsigned device);
void peer_access_reset(unsigned device);

/* True: a copy goes from one device to another and touches paged memory; which devices. */
bool sharing_between_devices(uint64_t to, uint64_t from, int *to_device, int *from_device);

/* Such a call on paged memory failed: it is counted, and the first is told. */
void sharing_not_possible(const char *what);

/* The driver refused to share the memory with other processes. */
void sharing_ipc_failed(uint64_t address);
