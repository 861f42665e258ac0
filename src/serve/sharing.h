/* sharing.h: what other devices and other processes may do with paged memory. */
#pragma once

#include "base/base.h"

/* Whether a copy goes from one device to another and touches paged memory; which devices. */
bool sharing_between_devices(uint64_t to, uint64_t from, int *to_device, int *from_device);

/* Such a call on paged memory failed: it is counted, and the first is told. */
void sharing_not_possible(const char *what);

/* The driver refused to share the memory with other processes. */
void sharing_ipc_failed(uint64_t address);
