/* The runtime packages of CUDA 11 and 12 leave out crt/, which their headers include. These are the
 * few names that plain C needs from it, written down here; an object that only talks to the runtime
 * needs no more. */
#ifndef SIM_COMPAT_HOST_DEFINES_H
#define SIM_COMPAT_HOST_DEFINES_H

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDART_CB
#define __host__
#define __device__
#define __global__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __location__(where)
#define __no_return__            __attribute__((noreturn))
#define __forceinline__          inline
#define __align__(bytes)         __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))

#endif
