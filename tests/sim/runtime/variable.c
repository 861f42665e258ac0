/* Device variables that nvcc-compiled objects register. The driver cannot know their sizes (it does
 * not read the code), so each gets memory of its own on a device when it is first asked for there;
 * on a card it lies in the loaded module. */
#include "registry.h"

#include <stdlib.h>

/* A variable's memory on one device; a later cudaDeviceReset ends it. */
struct placement {
    const void *host;
    int device;
    unsigned resets;
    CUdeviceptr address;
    struct placement *next;
};

static struct placement *find_placement(const struct host_symbol *variable, int device) {
    struct placement *placement = variable->binary->placements;
    while (placement && (placement->host != variable->host || placement->device != device ||
                         placement->resets != rt_resets(device)))
        placement = placement->next;
    return placement;
}

static cudaError_t place(struct host_symbol *variable, int device, struct placement **out) {
    struct placement *placement = calloc(1, sizeof *placement);
    if (!placement)
        return rt_fail(cudaErrorMemoryAllocation);
    CUresult result = cu.cuMemAlloc(&placement->address, variable->size);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemsetD8(placement->address, 0, variable->size);
    if (result != CUDA_SUCCESS) {
        free(placement);
        return rt_result(result);
    }
    placement->host = variable->host;
    placement->device = device;
    placement->resets = rt_resets(device);
    placement->next = variable->binary->placements;
    variable->binary->placements = placement;
    *out = placement;
    return cudaSuccess;
}

void variables_free(struct fat_binary *binary) {
    while (binary->placements) {
        struct placement *placement = binary->placements;
        binary->placements = placement->next;
        if (placement->resets == rt_resets(placement->device))
            cu.cuMemFree(placement->address);
        free(placement);
    }
}

/* The lock is held. */
static cudaError_t address_of(const void *symbol, int device, void **address, size_t *size) {
    struct host_symbol *variable = registry_find(symbol);
    if (!variable || variable->size == 0)
        return rt_fail(cudaErrorInvalidSymbol);
    struct placement *placement = find_placement(variable, device);
    cudaError_t error = placement ? cudaSuccess : place(variable, device, &placement);
    if (error != cudaSuccess)
        return error;
    *address = (void *)(uintptr_t)placement->address;
    *size = variable->size;
    return cudaSuccess;
}

static cudaError_t find_variable(const void *symbol, void **address, size_t *size) {
    int device = 0;
    RT_ENTER();
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    registry_lock();
    error = address_of(symbol, device, address, size);
    registry_unlock();
    return error;
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    size_t size = 0;
    return find_variable(symbol, address, &size);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol) {
    void *address = NULL;
    return find_variable(symbol, &address, size);
}

/* The address of a part of a variable; parts outside of it are refused. */
static cudaError_t variable_part(const void *symbol, size_t offset, size_t count, char **part) {
    void *address = NULL;
    size_t size = 0;
    cudaError_t error = find_variable(symbol, &address, &size);
    if (error != cudaSuccess)
        return error;
    if (offset > size || count > size - offset)
        return rt_fail(cudaErrorInvalidValue);
    *part = (char *)address + offset;
    return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *source, size_t count, size_t offset,
                               enum cudaMemcpyKind kind) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy(part, source, count, kind) : error;
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *source, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync(part, source, count, kind, stream) : error;
}

cudaError_t cudaMemcpyFromSymbol(void *destination, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpy(destination, part, count, kind) : error;
}

cudaError_t cudaMemcpyFromSymbolAsync(void *destination, const void *symbol, size_t count,
                                      size_t offset, enum cudaMemcpyKind kind,
                                      cudaStream_t stream) {
    char *part = NULL;
    cudaError_t error = variable_part(symbol, offset, count, &part);
    return error == cudaSuccess ? cudaMemcpyAsync(destination, part, count, kind, stream) : error;
}
