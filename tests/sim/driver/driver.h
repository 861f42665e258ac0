/* State and conventions shared by all parts of the simulated driver.
 *
 * One lock guards everything; a public function takes it with sim_begin() and gives it back with
 * sim_end(). Functions without a cu or simgpu_ prefix expect the lock to be held. Only waiting
 * (queue.c), host functions and calls that last (latency.c) let it go for a while: what was looked
 * up before may be gone then. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define PAGE_BYTES                                                                                 \
    ((size_t)2 << 20) /* Physical page and mapping granularity, as on real cards.                  \
                       */
#define ALIGN_UP(value, step) (((value) + (step)-1) / (step) * (step))

struct stream;
struct pool;

struct device {
    int ordinal;
    uint8_t *arena;       /* Host bytes behind the physical pages; sparse. */
    uint32_t *free_pages; /* Stack of page numbers. */
    uint8_t *page_dirty;  /* Per page: host bytes have been written. */
    uint32_t page_count, free_count;
    size_t context_bytes; /* Taken by contexts, tables, code; not backed by pages. */
    size_t most_bytes;    /* In use at once since simgpu_most_used_bytes was last asked. */
    unsigned long requests;
    struct context *primary;
    struct pool *default_pool, *current_pool;
    struct pool *graph_pool; /* Memory of graph allocation nodes. */
};

struct context {
    CUcontext handle;
    struct device *device;
    struct context *next;
    unsigned references;
    unsigned flags;
    bool primary, alive;
    unsigned long long id;
    unsigned long long activation; /* Another one each time the context comes to life. */
    CUresult sticky;               /* First fatal error; every later call returns it. */
    struct stream *legacy;
    struct stream *streams;    /* All streams, the legacy one included. */
    unsigned blocking_pending; /* Queued operations in blocking streams other than legacy. */
    unsigned peers;            /* Bit per device to which peer access is enabled. */
    bool has_local_memory;     /* A kernel has been launched. */
    size_t limits[CU_LIMIT_MAX];
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
};

struct driver {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* Something that a waiting thread may wait for has happened. */
    struct config config;
    bool initialised;
    struct device devices[MAX_DEVICES];
    uint64_t last_ticket; /* Order of submission over all streams. */
    unsigned long long last_id;
};

extern struct driver sim;

/* What a public function needs before it can run. */
enum need {
    NEED_NOTHING, /* Not even cuInit. */
    NEED_INIT,
    NEED_MEMORY,  /* No context of the process has a sticky error: for calls that have none. */
    NEED_CONTEXT, /* A live current context without a sticky error. */
};

/* Takes the lock and returns CUDA_SUCCESS, or returns an error without the lock. */
CUresult sim_begin(enum need need);
/* An error if the function is to fail on purpose now. Without the lock. */
CUresult sim_told_to_fail(const char *function, const void *caller);
/* Gives the lock back, logs the call and passes the result on. */
CUresult sim_end(const char *function, CUresult result);

/* Of BEGIN; also at the start of a public function whose BEGIN is in another one. */
#define FAIL_IF_TOLD()                                                                             \
    do {                                                                                           \
        CUresult told = sim_told_to_fail(__func__, __builtin_return_address(0));                   \
        if (told != CUDA_SUCCESS)                                                                  \
            return told;                                                                           \
    } while (0)
#define BEGIN(need)                                                                                \
    do {                                                                                           \
        FAIL_IF_TOLD();                                                                            \
        CUresult begin_result = sim_begin(need);                                                   \
        if (begin_result != CUDA_SUCCESS)                                                          \
            return begin_result;                                                                   \
    } while (0)
#define END(result) return sim_end(__func__, (result))

/* log.c */
void sim_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports an error that the program made: counted, always printed, fatal under STRICT=abort. */
void sim_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
int sim_unsupported(const char *name);
const char *sim_error_name(CUresult error);

/* fail.c: what SIMGPU_FAIL says; is it that call's turn? CUDA_SUCCESS: no. */
void fail_read(void);
CUresult fail_code(const char *function, const void *caller);
void fail_after(const char *function);

/* start.c: contexts, threads and forks */
bool sim_per_thread_default(bool enabled);
bool sim_default_stream_is_per_thread(void);
/* Marks the calling thread as running a host function, which must not call CUDA. */
void sim_in_callback(bool inside);

/* device.c */
struct device *device_of(CUdevice ordinal); /* NULL if there is no such device. */
bool devices_are_peers(int one, int other); /* Can one access the other's memory? */

/* context.c */
struct context *context_current(void); /* NULL if none; may be dead. */
struct context *context_of(CUcontext handle);
CUresult context_primary_retain(struct device *device, struct context **out);
/* All contexts there ever were, oldest last; NULL starts and ends the walk. */
struct context *context_next(struct context *context);

/* handles.c: opaque values for the program, which are never valid again once dropped. */
enum handle_type {
    HANDLE_CONTEXT = 1,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_PHYSICAL,
    HANDLE_POOL,
    HANDLE_MODULE,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_GRAPH,
    HANDLE_GRAPH_EXEC,
    HANDLE_NODE,
    HANDLE_ARRAY,
};
uintptr_t handle_make(enum handle_type type, void *object);
void *handle_get(uintptr_t handle, enum handle_type type); /* NULL if it is not a live handle. */
void handle_drop(uintptr_t handle);
/* Visits all objects of a type; the visitor may drop the one it is given. */
void handle_each(enum handle_type type, void (*visit)(void *object, void *data), void *data);

#endif
