/* host_memory.h: how much memory the host has, for the moment when it refuses some. */
#ifndef HOST_MEMORY_H
#define HOST_MEMORY_H

#include <stdint.h>

struct host_memory {
    uint64_t total_bytes, available_bytes; /* 0: not known */
};

/* Allocates nothing and takes no lock. */
struct host_memory host_memory_read(void);

#endif
