/* nvml.h: who has memory of a device, as the driver's management library (NVML) tells it. */
#ifndef NVML_H
#define NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml_process {
    uint64_t pid;   /* as NVML numbers it: in a container perhaps not as we do */
    uint64_t bytes; /* of the device */
};

/* How many were put into out, this process among them; 0: none, or no NVML. It may wait and
 * allocate: for our own thread only. */
size_t nvml_processes(const char *bus_id, struct nvml_process *out, size_t room);

/* A card of the machine. */
struct nvml_card {
    uint64_t free_bytes;
    unsigned number; /* NVML's: by PCI bus, as nvidia-smi counts */
    char name[64];
};

/* The card with most free memory but for the one of that bus id. False: there is none, or no NVML.
 * For our own thread only, too. */
bool nvml_other_card(const char *bus_id, struct nvml_card *out);

#endif
