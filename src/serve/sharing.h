/* sharing.h: what other devices and other processes may do with paged memory. */
#ifndef SHARING_H
#define SHARING_H

#include "base/base.h"

/* Whether a copy goes from one device to another and touches paged memory; which devices. */
bool sharing_between_devices(uint64_t to, uint64_t from, int *to_device, int *from_device);

/* The driver refused to share the memory with other processes. */
void sharing_ipc_failed(uint64_t address);

#endif
