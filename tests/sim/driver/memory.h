/* Device memory: physical pages, address space, and the blocks of it that the program owns.
 *
 * A device address is never an address the CPU can use, as on a real card: the address space is
 * reserved without access, and copies reach the bytes through the device's arena. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "driver.h"
#include "ranges.h"

/* phys.c: physical memory */
struct phys {
    struct device *device; /* NULL: it lies with the host. */
    uint8_t *view;         /* Where its bytes are; NULL: in the arena, page by page. */
    int file_plus_one;     /* Shared with other processes by this file. */
    bool imported;         /* Another process's: charged there. */
    uint32_t page_count;
    unsigned handles, mappings; /* Freed when both are zero. */
    uintptr_t handle;           /* For cuMemCreate; 0 otherwise. */
    CUmemAllocationProp prop;
    uint32_t pages[];
};

CUresult device_memory_init(struct device *device);
size_t device_free_bytes(const struct device *device);
size_t device_used_bytes(const struct device *device); /* the rest of it */
/* True if the OOM_NTH setting refuses this request. Waits as HOLD says. */
bool device_refuses(struct device *device);
/* Takes pages; NULL if there are not enough. References start at zero. */
struct phys *phys_take(struct device *device, size_t bytes);
void phys_give_back(struct phys *phys); /* Frees it if nothing refers to it any more. */
uint8_t *phys_bytes(struct phys *phys, size_t offset, size_t *run_bytes);
void phys_mark_dirty(struct phys *phys, size_t offset, size_t bytes);
bool device_charge_context(struct device *device);
void device_discharge_context(struct device *device);

/* host.c: physical memory that lies with the host */
bool location_is_host(const CUmemLocation *location);
CUresult host_location_check(const CUmemAllocationProp *prop);
struct phys *phys_take_host(size_t bytes); /* NULL if the host has none. */
void phys_give_back_host(struct phys *phys);
struct block;
void host_view(struct block *block, unsigned bits); /* The CPU's access to a mapping. */

/* share.c: physical memory that other processes see */
int phys_share(struct phys *phys); /* The file; -1 if it cannot be made. It stays the driver's. */
void phys_end_sharing(struct phys *phys);
struct phys *phys_import(int file, size_t bytes, struct device *device);

/* space.c: address space of the devices, in whole pages */
uintptr_t space_take(size_t bytes, size_t alignment);
uintptr_t space_take_at(uintptr_t hint, size_t bytes);
void space_give_back(uintptr_t base, size_t bytes);
bool space_owns(uintptr_t address);

/* blocks.c: what the program owns */
enum block_kind {
    BLOCK_DEVICE,   /* cuMemAlloc, with pages of its own. */
    BLOCK_SMALL,    /* cuMemAlloc under 1 MiB: part of a shared page. */
    BLOCK_MAPPING,  /* cuMemMap. */
    BLOCK_POOL,     /* Stream-ordered, out of a pool's chunk. */
    BLOCK_IMPORTED, /* cuIpcOpenMemHandle. */
    BLOCK_MANAGED,  /* The rest is host memory, address for address. */
    BLOCK_HOST,
    BLOCK_REGISTERED,
};

enum access_bits { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ALL = 3 };

struct block {
    struct range at; /* Must be first. */
    enum block_kind kind;
    unsigned flags;
    unsigned long long id;
    struct context *context; /* Owner; NULL for mappings. */
    struct device *device;
    struct phys *phys;
    uintptr_t phys_base;         /* Address at which the first byte of phys is seen. */
    uint8_t access[MAX_DEVICES]; /* Access bits per device. */
    uint8_t host_access;         /* Of the CPU, to a mapping. */
    struct pool *pool;
    struct piece *piece;               /* Of a pool. */
    uintptr_t array;                   /* Handle of the array whose memory it is, or 0. */
    struct graph_memory *graph_memory; /* NULL unless a graph allocates it. */
    struct slab *slab;
    bool sync_memops;
};

struct block *block_new(enum block_kind kind, uintptr_t base, size_t bytes);
void block_delete(struct block *block); /* Takes it out of the map and frees the record. */
struct block *block_find(uintptr_t address);
struct block *block_overlap(uintptr_t base, size_t bytes);
struct block *block_first(void);
struct block *block_next(struct block *block);
bool block_is_host(const struct block *block); /* Readable by the CPU. */

/* alloc.c: cuMemAlloc and its kin */
CUresult allocate_device(struct context *context, size_t bytes, struct block **out);
CUresult allocate_host(struct context *context, enum block_kind kind, size_t bytes,
                       struct block **out);
/* Frees a block of any kind but a mapping, at once; the caller has waited. */
void release_block(struct block *block);

/* access.c: checking and moving bytes when an operation runs */
struct access {
    const struct context *context;
    const struct device *device; /* Which touches it: that of the context, or a peer's. */
    bool write, by_kernel;
};

bool access_allowed(const struct access *access, uintptr_t base, size_t bytes);
bool address_is_device(uintptr_t address);
/* Bytes of a range that lie with the host, though the address is the device's. */
size_t bytes_with_host(uintptr_t base, size_t bytes);
bool address_is_pinned(uintptr_t address);
/* Looks at a range when work on it is submitted: is it all within one allocation? */
bool range_is_owned(uintptr_t base, size_t bytes);
void bytes_copy(uintptr_t to, uintptr_t from, size_t bytes);
void bytes_fill(uintptr_t to, const void *pattern, size_t pattern_bytes, size_t bytes);
size_t bytes_differ(uintptr_t at, uint8_t value, size_t bytes);

/* ipc.c */
void ipc_release(struct block *block);

/* array.c */
void array_forget(uintptr_t handle);

/* vmm.c */
void vmm_sweep(struct device *device);
size_t vmm_bytes_behind(uintptr_t address);

/* pool.c */
CUresult pool_device_init(struct device *device);
CUmemoryPool pool_handle(const struct pool *pool); /* NULL for NULL. */
void pool_sweep(struct device *device);
/* Pool memory that work of an ended context still held is free now. */
void pool_context_ended(struct context *context);
struct block *pool_chunk_block(uintptr_t address); /* The chunk that backs a pool address. */
/* Frees a pool block at once (cuMemFree). */
void pool_free_now(struct block *block);
/* Called after a stream, event or context was synchronised. */
void pool_synchronised(struct device *device);
/* Room for allocations outside pools: gives back what free pool memory holds. */
bool pool_give_way(struct device *device);

#endif
