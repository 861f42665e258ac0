/* nvml.h: who has memory of a device, as the driver's management library (NVML) tells it. */
#ifndef NVML_H
#define NVML_H

#include <stddef.h>
#include <stdint.h>

struct nvml_process {
    uint64_t pid;   /* as NVML numbers it: in a container perhaps not as we do */
    uint64_t bytes; /* of the device */
};

/* How many were put into out, this process among them; 0: none, or no NVML. It may wait and
 * allocate: for our own thread only. */
size_t nvml_processes(const char *bus_id, struct nvml_process *out, size_t room);

#endif
