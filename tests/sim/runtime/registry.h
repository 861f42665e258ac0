/* The table of host symbols that nvcc-compiled objects register: kernels' host stubs and device
 * variables. A process with PyTorch registers some hundred thousand before main, so an entry is
 * small and a look-up does not search. */
#ifndef SIM_REGISTRY_H
#define SIM_REGISTRY_H

#include "runtime.h"

/* One registered object of device code. It is loaded into the driver when something of it is first
 * used. */
struct fat_binary {
    const void *image;
    CUlibrary library;
    struct placement *placements;
    bool unregistered;
};

struct host_symbol {
    const void *host;
    const char *name;
    struct fat_binary *binary;
    CUkernel kernel;
    /* Device variables only: size in bytes (0 for a kernel) and the address once it was asked for.
     */
    size_t size;
    CUdeviceptr address;
};

/* Both take the table's lock. registry_find returns NULL for what was never registered or is
 * unloaded; the entry's place may move when the table grows, so registry_lock must be held as long
 * as it is used. */
void registry_lock(void);
void registry_unlock(void);
struct host_symbol *registry_find(const void *host);
/* False when there is no memory for it. The lock must be held. */
bool registry_add(struct host_symbol symbol);

/* Gives back the memory of an object's device variables; the lock must be held. */
void variables_free(struct fat_binary *binary);

#endif
