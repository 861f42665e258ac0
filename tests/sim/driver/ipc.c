/* Sharing of device memory between processes: the older way of cuIpc... for memory of cuMemAlloc,
 * and file descriptors for handles of cuMemCreate that were made for it. As on a card the first
 * refuses memory that is mapped or comes from a pool, and its own process. Events are not shared.
 */
#include "memory.h"
#include "queue.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ticket {
    char magic[8];
    int32_t process, file, device;
    uint64_t inode, id, bytes, offset, physical_bytes;
};
_Static_assert(sizeof(struct ticket) <= CU_IPC_HANDLE_SIZE, "fits the handle");

static const char magic[] = "simgpuIP";

/* What a context has opened, by the id of the allocation. */
struct import {
    struct import *next;
    struct block *block;
    uint64_t id;
    int32_t process;
    unsigned references;
};

static struct { struct import *imports; } state;

/* ---- memory of cuMemAlloc ---- */

static CUresult make_ticket(struct ticket *ticket, const struct block *block) {
    struct stat status;
    int file = phys_share(block->phys);
    if (file < 0 || fstat(file, &status) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(ticket->magic, magic, sizeof ticket->magic);
    ticket->process = getpid();
    ticket->file = file;
    ticket->device = block->device->ordinal;
    ticket->inode = status.st_ino;
    ticket->id = block->id;
    ticket->bytes = block->at.size_bytes;
    ticket->offset = block->at.base - block->phys_base;
    ticket->physical_bytes = (uint64_t)block->phys->page_count * PAGE_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct ticket ticket = {0};
    struct block *block = block_find(pointer);
    if (block == NULL || block->at.base != pointer ||
        (block->kind != BLOCK_DEVICE && block->kind != BLOCK_SMALL) || block->array != 0)
        END(CUDA_ERROR_INVALID_VALUE);
    CUresult result = make_ticket(&ticket, block);
    if (result == CUDA_SUCCESS) {
        memset(handle, 0, sizeof *handle);
        memcpy(handle->reserved, &ticket, sizeof ticket);
    }
    END(result);
}

static int open_file(const struct ticket *ticket) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)ticket->process, (int)ticket->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0 && (fstat(file, &status) != 0 || status.st_ino != ticket->inode)) {
        close(file);
        return -1;
    }
    return file;
}

static struct import *import_find(const struct ticket *ticket, const struct context *context) {
    struct import *import = state.imports;
    while (import != NULL && (import->id != ticket->id || import->process != ticket->process ||
                              import->block->context != context))
        import = import->next;
    return import;
}

static struct import *import_new(const struct ticket *ticket, struct phys *phys,
                                 struct context *context) {
    struct import *import = calloc(1, sizeof *import);
    uintptr_t base = import != NULL ? space_take(ticket->physical_bytes, PAGE_BYTES) : 0;
    if (base == 0) {
        free(import);
        return NULL;
    }
    struct block *block = block_new(BLOCK_IMPORTED, base + ticket->offset, ticket->bytes);
    block->context = context;
    block->device = phys->device;
    block->phys = phys;
    block->phys_base = base;
    phys->mappings = 1;
    for (int i = 0; i < MAX_DEVICES; i++)
        block->access[i] = ACCESS_ALL;
    *import = (struct import){state.imports, block, ticket->id, ticket->process, 1};
    state.imports = import;
    return import;
}

static CUresult import_open(const struct ticket *ticket, struct context *context,
                            struct import **out) {
    struct device *device = device_of(ticket->device);
    int own = context->device->ordinal;
    if (device == NULL || (own != ticket->device && !devices_are_peers(own, ticket->device)))
        return CUDA_ERROR_INVALID_DEVICE;
    int file = open_file(ticket);
    if (file < 0)
        return CUDA_ERROR_MAP_FAILED;
    struct phys *phys = phys_import(file, ticket->physical_bytes, device);
    close(file);
    *out = phys != NULL ? import_new(ticket, phys, context) : NULL;
    if (*out == NULL && phys != NULL)
        phys_give_back(phys);
    if (*out != NULL && own != ticket->device)
        context->peers |= 1u << ticket->device; /* As the flag asks. */
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    struct ticket ticket;
    memcpy(&ticket, handle.reserved, sizeof ticket);
    if (out == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    if (memcmp(ticket.magic, magic, sizeof ticket.magic) != 0)
        END(CUDA_ERROR_INVALID_HANDLE);
    if (ticket.process == getpid())
        END(CUDA_ERROR_INVALID_CONTEXT);
    struct import *import = import_find(&ticket, context_current());
    CUresult result = CUDA_SUCCESS;
    if (import != NULL)
        import->references++;
    else
        result = import_open(&ticket, context_current(), &import);
    if (result == CUDA_SUCCESS)
        *out = import->block->at.base;
    END(result);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    return cuIpcOpenMemHandle_v2(out, handle, flags);
}

static struct import **import_of(uintptr_t pointer) {
    struct import **link = &state.imports;
    while (*link != NULL && (*link)->block->at.base != pointer)
        link = &(*link)->next;
    return link;
}

/* The caller deletes the block. */
void ipc_release(struct block *block) {
    struct import **link = import_of(block->at.base), *import = *link;
    struct phys *phys = block->phys;
    space_give_back(block->phys_base, (size_t)phys->page_count * PAGE_BYTES);
    phys->mappings--;
    phys_give_back(phys);
    *link = import->next;
    free(import);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    BEGIN(NEED_CONTEXT);
    struct import *import = *import_of(pointer);
    if (import == NULL) {
        sim_fault("cuIpcCloseMemHandle of %#zx, which was not opened", (size_t)pointer);
        END(CUDA_ERROR_INVALID_VALUE);
    }
    if (--import->references == 0)
        queue_wait_device(context_current()->device);
    import = *import_of(pointer); /* The lock may have been let go. */
    if (import != NULL && import->references == 0)
        release_block(import->block);
    END(CUDA_SUCCESS);
}

/* ---- handles of cuMemCreate ---- */

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct phys *phys = handle_get((uintptr_t)handle, HANDLE_PHYSICAL);
    if (phys == NULL || phys->handles == 0 || !(phys->prop.requestedHandleTypes & type))
        END(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || phys->device == NULL)
        END(CUDA_ERROR_NOT_SUPPORTED);
    int file = phys_share(phys);
    int copy = file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0)
        END(CUDA_ERROR_OUT_OF_MEMORY);
    *(int *)out = copy;
    END(CUDA_SUCCESS);
}

struct by_file {
    ino_t inode;
    struct phys *found;
};

static void match_file(void *object, void *data) {
    struct phys *phys = object;
    struct by_file *wanted = data;
    struct stat status;
    if (phys->file_plus_one != 0 && fstat(phys->file_plus_one - 1, &status) == 0 &&
        status.st_ino == wanted->inode)
        wanted->found = phys;
}

/* Of another process: the file tells the size, and the device is taken to be the current one. */
static struct phys *import_file(int file, size_t bytes) {
    struct context *context = context_current();
    struct phys *phys = phys_import(file, bytes, context != NULL ? context->device : device_of(0));
    if (phys == NULL)
        return NULL;
    phys->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    phys->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    phys->prop.location.id = phys->device->ordinal;
    phys->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    phys->handle = handle_make(HANDLE_PHYSICAL, phys);
    return phys;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType type) {
    struct stat status;
    int file = (int)(intptr_t)os_handle;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        END(CUDA_ERROR_NOT_SUPPORTED);
    if (fstat(file, &status) != 0 || status.st_size == 0 ||
        (size_t)status.st_size % PAGE_BYTES != 0)
        END(CUDA_ERROR_INVALID_VALUE);
    struct by_file wanted = {.inode = status.st_ino};
    handle_each(HANDLE_PHYSICAL, match_file, &wanted);
    struct phys *phys = wanted.found;
    if (phys == NULL)
        phys = import_file(file, (size_t)status.st_size);
    if (phys == NULL)
        END(CUDA_ERROR_INVALID_VALUE);
    phys->handles++;
    *out = phys->handle;
    END(CUDA_SUCCESS);
}
