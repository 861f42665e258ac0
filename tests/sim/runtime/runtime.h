/* What the files of the simulated CUDA runtime share: the driver's functions, the calling thread's
 * context and its errors. The runtime keeps no memory or stream state of its own: the simulated
 * driver is the device. One source is built for CUDA 11, 12 and 13, each with that major's public
 * runtime headers and, for the driver's side, the newest cuda.h. */
#ifndef SIM_RUNTIME_H
#define SIM_RUNTIME_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Newer headers rename these by macro; the binary interface has the plain names as well. */
#undef cudaGetDeviceProperties
#undef cudaStreamGetCaptureInfo

/* Where CUDA allows a device ordinal, this is the highest count that the runtime keeps records for.
 */
#define RT_MAX_DEVICES 64

/* The driver's entry points, filled once from cuGetProcAddress; one that the driver lacks answers
 * 801. */
struct driver_table {
#define DRIVER(name, version) PFN_##name##_v##version name;
#include "driver.def"
#undef DRIVER
};
extern struct driver_table cu;
extern PFN_cuGetProcAddress_v12000 rt_get_proc_address;

/* Opens the driver once; returns its error, which is remembered for the process. Does not touch the
 * context. */
cudaError_t rt_load(void);

/* Number of devices; valid after rt_load succeeded. */
int rt_device_count(void);

/* Opens the driver and makes sure that the calling thread has a current context: the one that it
 * set through the driver API, else the primary context of its device. Returns an error that is
 * recorded already. */
cudaError_t rt_enter(void);

/* Primary context of a device, retained once for the process; cudaErrorInvalidDevice for a device
 * that is not there. */
cudaError_t rt_primary_context(int device, CUcontext *context);

/* How often cudaDeviceReset has ended a device's context: what was made before a reset is gone. */
unsigned rt_resets(int device);

/* Records an error for cudaGetLastError of this thread and returns it. */
cudaError_t rt_fail(cudaError_t error);

/* The same for what the driver returned. Since CUDA 10.1 the common codes of driver and runtime
 * have the same numbers. */
cudaError_t rt_result(CUresult result);

/* Says once for each name that a function is not simulated; returns and records
 * cudaErrorNotSupported. */
int rt_unsupported(const char *name);

/* The function of a host stub or of a cudaKernel_t in the current context; an error is recorded
 * already. */
cudaError_t rt_function_of(const void *symbol, CUfunction *function);

/* Lets a cudaKernel_t that came from a library be used where a host stub's address is expected. */
cudaError_t rt_remember_kernel(CUkernel kernel);

#define RT_LOAD()                                                                                  \
    do {                                                                                           \
        cudaError_t rt_error_ = rt_load();                                                         \
        if (rt_error_ != cudaSuccess)                                                              \
            return rt_fail(rt_error_);                                                             \
    } while (0)

#define RT_ENTER()                                                                                 \
    do {                                                                                           \
        cudaError_t rt_error_ = rt_enter();                                                        \
        if (rt_error_ != cudaSuccess)                                                              \
            return rt_error_;                                                                      \
    } while (0)

/* Most functions are one driver call in the calling thread's context. */
#define RT_CALL(call)                                                                              \
    do {                                                                                           \
        RT_ENTER();                                                                                \
        return rt_result(call);                                                                    \
    } while (0)

#define RT_DEVICE_POINTER(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

#endif
