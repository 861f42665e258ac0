/* What tests can ask of the simulated device beyond the CUDA driver API. Look the functions up with
 * dlsym(dlopen("libcuda.so.1")): on a real card they do not exist. All are thread-safe. Streams are
 * those of the driver API, so NULL and the special handles are allowed. */
#ifndef SIMGPU_H
#define SIMGPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Errors that the program made so far in this process; each was printed as "simgpu: ERROR ...". */
unsigned long simgpu_errors(void);

/* Calls of this process answered with out of memory so far, whoever made them. */
unsigned long simgpu_refusals(void);

/* What the driver's calls of this process were made to last so far, all threads together; 0 without
 * a latency profile. Work on the device is not in it. */
unsigned long long simgpu_latency_ns(void);

/* Nothing in the stream runs until it is released: its work stays pending, and whoever waits for it
 * waits. Holding does not nest. Returns 0, or a CUresult if there is no such stream. */
int simgpu_hold(struct CUstream_st *stream);
int simgpu_release(struct CUstream_st *stream);

/* Queues a "kernel" that writes value into every byte of [pointer, pointer + bytes) when it runs.
 * DATA_LIMIT does not apply. A page that is not mapped then is an illegal access. */
int simgpu_touch(struct CUstream_st *stream, unsigned long long pointer, size_t bytes,
                 unsigned char value);
/* Queues a "kernel" that reports an error if a byte of the range is not value when it runs. */
int simgpu_expect(struct CUstream_st *stream, unsigned long long pointer, size_t bytes,
                  unsigned char value);
/* Queues a "kernel" that reads (write = 0) or writes (write = 1) the range without moving data: for
 * stand-ins of mathematical libraries, so that their operands are checked at any size. */
int simgpu_use(struct CUstream_st *stream, unsigned long long pointer, size_t bytes, int write);

/* Memory of the device that is in use, contexts included: the books themselves, whatever somebody
 * in front of cuMemGetInfo answers. 0 before the driver is initialised, and for no such device. */
size_t simgpu_used_bytes(int device);

/* The most that was in use at once since this was last asked. */
size_t simgpu_most_used_bytes(int device);

/* Memory that lies with the host and is held by handles of cuMemCreate. */
size_t simgpu_host_bytes(void);

/* Operations that are queued and have not run, in all streams of the current context. */
size_t simgpu_pending(void);

#ifdef __cplusplus
}
#endif

#endif
