/* expandable.h: the engine for PyTorch's expandable segments: what the allocator gets for
 * physical memory is a number of ours (a virtual handle). In mode compact pages come with its
 * blocks; in mode flush its own steps come when it maps them, and stay for a moment afterwards.
 * These answer in the info of the driver, as it would; a virtual handle never reaches it. Each
 * function named by a driver call takes that call's arguments. Any thread. */
#pragma once

#include "base/base.h"
#include "cuda/real.h"
#include "track/vmm.h"
#include "vm/vm.h"

/* The current device's engine has a range of that size that ended, with memory there: its number;
 * VRAMGC_MAX_DEVICES: none has, and the driver is to be asked. */
unsigned vhandle_address_again(uint64_t *address, uint64_t bytes);

/* PyTorch's allocator frees a range of addresses, or the driver is to be asked. */
enum vm_range_end vhandle_address_free(const struct book_range *range, uint64_t bytes);

/* True: such memory for PyTorch's allocator comes from the engine; opens it if need be. */
bool vhandle_serves(uint64_t bytes, const CUmemAllocationProp *properties);
CUresult vhandle_create(CUmemGenericAllocationHandle *handle, uint64_t bytes,
                        const CUmemAllocationProp *properties);

/* Of a virtual handle. */
CUresult vhandle_release(CUmemGenericAllocationHandle handle);
CUresult vhandle_properties(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle);
CUresult vhandle_export(void);

/* The driver's handle behind it, which somebody is to share; 0: there is none (mode compact). */
uint64_t vhandle_real(uint64_t handle);
CUresult vhandle_map(uint64_t address, uint64_t bytes, uint64_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags);

/* Where virtual handles are mapped. False: they are not; the driver is to be asked. */
bool vhandle_unmap(uint64_t address, uint64_t bytes, CUresult *result);
bool vhandle_set_access(uint64_t address, uint64_t bytes, const CUmemAccessDesc *access,
                        size_t count, CUresult *result);
bool vhandle_retain(CUmemGenericAllocationHandle *handle, uint64_t address, CUresult *result);
