/* pool_threads.c: the stream-ordered pool (src/vm/pool.c) under many threads, on an engine and a
 * GPU of the test's own. Each block's first and last work on the GPU takes and gives up its
 * addresses; streams run at their own pace. If an address is handed to another stream before the
 * work of the one before is over, two blocks have it at once, and the test ends. usage:
 * pool_threads SECONDS */
#include "vm/vm_internal.h"
#include "vm/pool.h"

#include "../seed.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 4, STREAMS = 6, BLOCKS = 24, QUEUE = 1 << 14, GRAINS = 216 * 2048 };

#define BASE        ((uint64_t)1 << 41)
#define TOTAL_BYTES (48 * MEBIBYTE)

_Atomic(void *) real_pointers[REAL_COUNT];
const struct real_info real_table[REAL_COUNT];

enum kind { BEGIN, END, WAIT };

struct work {
    enum kind kind;
    uint32_t block;          /* its number */
    uint64_t address, bytes; /* WAIT: the stream, and how many of its works */
};

struct stream {
    uint64_t handle;
    atomic_uint submitted, done;
    struct work queue[QUEUE];
};

static struct {
    pthread_mutex_t lock;     /* queues, settling */
    pthread_rwlock_t handles; /* a stream that is in use is not destroyed */
    struct stream streams[STREAMS];
    atomic_uint_fast32_t owner[GRAINS]; /* the block that has the address on the GPU */
    atomic_uint next_block;
    _Atomic uint64_t epoch, fenced, next_handle;
    uint64_t asked_tick;
    unsigned asked[STREAMS]; /* what was submitted when it was asked */
    bool pending;
    atomic_uint crossed, full;
    atomic_bool stop;
    struct vm vm;
    struct pool *pool;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .handles = PTHREAD_RWLOCK_INITIALIZER};

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "pool_threads: line %d: %s\n", __LINE__, #condition);                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static THREAD_LOCAL unsigned seed;

static unsigned below(unsigned bound) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % bound;
}

/* ---- the driver ---- */

static CUresult fake_reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr at,
                             unsigned long long flags) {
    (void)alignment;
    (void)at;
    (void)flags;
    MUST(bytes <= (uint64_t)GRAINS * 512);
    *address = BASE;
    return CUDA_SUCCESS;
}

static CUresult fake_current(CUcontext *context) {
    *context = (CUcontext)&self;
    return CUDA_SUCCESS;
}

/* A stream of another context now and then: handles that are odd. */
static CUresult fake_context(CUstream stream, CUcontext *context) {
    *context = (CUcontext)((uintptr_t)stream & 1 ? (void *)&self.pool : (void *)&self);
    return CUDA_SUCCESS;
}

static CUresult fake_synchronize(CUstream stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

void *real_find(enum real_id id) {
    (void)id;
    return NULL;
}

/* ---- the engine: it always has pages, but for a few blocks ---- */

static bool is_part(uint64_t address, uint64_t bytes) {
    return address >= BASE && bytes && address - BASE + bytes <= (uint64_t)GRAINS * 512;
}

bool vm_range_add(struct vm *vm, uint64_t address, uint64_t bytes, bool counted) {
    (void)vm;
    return is_part(address, bytes) && !counted;
}

bool vm_attach(struct vm *vm, uint64_t address, uint64_t bytes) {
    (void)vm;
    return is_part(address, bytes);
}

bool vm_stream_known(struct vm *vm, uint64_t stream) {
    (void)vm;
    (void)stream;
    return false;
}

void vm_stream_add(struct vm *vm, uint64_t stream) {
    (void)vm;
    (void)stream;
}

bool vm_could_back(struct vm *vm, uint64_t bytes) {
    (void)vm;
    (void)bytes;
    return true;
}

uint64_t vm_reclaim(struct vm *vm, uint64_t bytes, enum vm_ask ask) {
    (void)vm;
    (void)bytes;
    (void)ask;
    return 0;
}

int vm_refusal(void) {
    return CUDA_ERROR_OUT_OF_MEMORY;
}

bool vm_commit(struct vm *vm, uint64_t address, uint64_t bytes, bool pin) {
    (void)vm;
    MUST(address >= BASE && address + bytes <= BASE + (uint64_t)GRAINS * 512 && !pin);
    return atomic_load(&self.stop) || below(50) > 0;
}

void vm_mark_idle(struct vm *vm, uint64_t address, uint64_t bytes) {
    (void)vm;
    (void)address;
    (void)bytes;
    atomic_fetch_add(&self.epoch, 1);
}

uint64_t vm_epoch(struct vm *vm) {
    (void)vm;
    return atomic_load(&self.epoch);
}

uint64_t vm_fenced_epoch(struct vm *vm) {
    (void)vm;
    return atomic_load(&self.fenced);
}

void vm_fence_poll(struct vm *vm, bool may_wait) {
    (void)vm;
    (void)may_wait;
    bool over = true;
    pthread_mutex_lock(&self.lock);
    for (size_t i = 0; i < STREAMS && self.pending; i++)
        over = over && atomic_load(&self.streams[i].done) >= self.asked[i];
    if (self.pending && over)
        atomic_store(&self.fenced, self.asked_tick);
    if (!self.pending || over) {
        self.asked_tick = atomic_load(&self.epoch);
        for (size_t i = 0; i < STREAMS; i++)
            self.asked[i] = atomic_load(&self.streams[i].submitted);
        self.pending = true;
    }
    pthread_mutex_unlock(&self.lock);
}

/* ---- the GPU ---- */

static void submit(struct stream *stream, struct work work) {
    pthread_mutex_lock(&self.lock);
    unsigned at = atomic_load(&stream->submitted);
    stream->queue[at % QUEUE] = work;
    atomic_store(&stream->submitted, at + 1);
    pthread_mutex_unlock(&self.lock);
}

static bool do_work(const struct work *work) {
    uint64_t first = (work->address - BASE) / 512, end = first + (work->bytes + 511) / 512;
    if (work->kind == WAIT)
        return atomic_load(&self.streams[work->address].done) >= work->bytes;
    for (uint64_t i = first; i < end; i++) {
        uint32_t was = (uint32_t)atomic_load(&self.owner[i]);
        MUST(was == (work->kind == BEGIN ? 0 : work->block)); /* somebody else has it still */
        atomic_store(&self.owner[i], work->kind == BEGIN ? work->block : 0);
    }
    return true;
}

/* Any stream's next work, as it likes. */
static void *gpu(void *unused) {
    seed = (unsigned)seed_from(4711);
    for (;;) {
        bool idle = true;
        for (unsigned i = 0; i < STREAMS; i++) {
            struct stream *stream = &self.streams[i];
            unsigned done = atomic_load(&stream->done), submitted = atomic_load(&stream->submitted);
            idle = idle && done == submitted;
            if (done < submitted && below(4) == 0 && do_work(&stream->queue[done % QUEUE]))
                atomic_store(&stream->done, done + 1);
        }
        if (idle && atomic_load(&self.stop))
            return unused;
        if (idle)
            sched_yield();
    }
}

/* ---- the program ---- */

struct block {
    uint64_t address, bytes;
    unsigned number, stream;
};

/* The queues are finite, as a real one is: who is far ahead waits. */
static void wait_for_room(void) {
    for (size_t i = 0; i < STREAMS; i++)
        while (atomic_load(&self.streams[i].submitted) - atomic_load(&self.streams[i].done) >
               QUEUE / 4)
            sched_yield();
}

static uint64_t size(void) {
    return below(3) ? 1 + below(600000) : 1 + below(3 << 20);
}

static void take(struct block *block) {
    uint64_t bytes = size();
    unsigned number = below(STREAMS);
    struct stream *stream = &self.streams[number];
    pthread_rwlock_rdlock(&self.handles);
    enum pool_answer answer = pool_take(self.pool, bytes, stream->handle, &block->address);
    if (answer == POOL_TAKEN) {
        block->bytes = bytes;
        block->stream = number;
        block->number = atomic_fetch_add(&self.next_block, 1) % 0x7fffffff + 1;
        submit(stream, (struct work){BEGIN, block->number, block->address, bytes});
    } else {
        block->address = 0;
        atomic_fetch_add(&self.full, answer == POOL_FULL);
    }
    pthread_rwlock_unlock(&self.handles);
}

/* On its own stream, or on another that waits for it first. */
static void give(struct block *block) {
    unsigned number = below(4) ? block->stream : below(STREAMS);
    struct stream *stream = &self.streams[number];
    pthread_rwlock_rdlock(&self.handles);
    if (number != block->stream) {
        unsigned so_far = atomic_load(&self.streams[block->stream].submitted);
        submit(stream, (struct work){WAIT, 0, block->stream, so_far});
        atomic_fetch_add(&self.crossed, 1);
    }
    submit(stream, (struct work){END, block->number, block->address, block->bytes});
    MUST(pool_give(self.pool, block->address, stream->handle));
    pthread_rwlock_unlock(&self.handles);
    block->address = 0;
}

/* A stream goes with work still on it, and a new one gets its handle: its work need not wait for
 * that of the old. */
static void destroy_stream(void) {
    unsigned number = below(STREAMS - 1), other = STREAMS - 1;
    pthread_rwlock_wrlock(&self.handles);
    pool_stream_gone(self.pool, self.streams[number].handle);
    pool_stream_gone(self.pool, self.streams[other].handle);
    uint64_t handle = self.streams[number].handle;
    self.streams[number].handle = self.streams[other].handle;
    self.streams[other].handle = handle;
    pthread_rwlock_unlock(&self.handles);
}

static void *worker(void *argument) {
    struct block blocks[BLOCKS] = {{0}};
    seed = (unsigned)seed_from((uintptr_t)argument);
    while (!atomic_load(&self.stop)) {
        struct block *block = &blocks[below(BLOCKS)];
        wait_for_room();
        if (block->address)
            give(block);
        else
            take(block);
        if (below(2000) == 0)
            destroy_stream();
        struct arena_figures figures = pool_figures(self.pool);
        MUST(figures.used_bytes <= figures.used_high_bytes);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].address)
            give(&blocks[i]);
    return NULL;
}

/* A stream has its own again at once, the thread's stream does not: it is another one in each
 * thread. */
static void check_streams(void) {
    uint64_t address, again;
    MUST(pool_take(self.pool, 512, 0x2001, &address) == POOL_NOT_OURS);
    MUST(pool_take(self.pool, 512, 0x2000, &address) == POOL_TAKEN);
    MUST(pool_give(self.pool, address, 0x2001)); /* of another context: waited for */
    MUST(pool_take(self.pool, 512, 2, &address) == POOL_TAKEN);
    MUST(pool_give(self.pool, address, 2) && !pool_give(self.pool, address, 2));
    MUST(pool_take(self.pool, 512, 2, &again) == POOL_TAKEN && again != address);
    MUST(pool_give(self.pool, again, STREAM_NONE));
    MUST(pool_take(self.pool, 512, 0, &address) == POOL_TAKEN && pool_give(self.pool, address, 1));
    MUST(pool_take(self.pool, 512, 0, &again) == POOL_TAKEN && again == address);
    MUST(pool_give(self.pool, again, 0));
}

static void install(void) {
    atomic_store(&real_pointers[ID_cuMemAddressReserve], (void *)fake_reserve);
    atomic_store(&real_pointers[ID_cuCtxGetCurrent], (void *)fake_current);
    atomic_store(&real_pointers[ID_cuStreamGetCtx], (void *)fake_context);
    atomic_store(&real_pointers[ID_cuStreamSynchronize], (void *)fake_synchronize);
    self.vm.context = (CUcontext)&self;
    for (size_t i = 0; i < STREAMS; i++)
        self.streams[i].handle = i ? 0x1000 + i * 16 : 0;
}

int main(int count, char **arguments) {
    enum { ENOUGH = 500 };
    pthread_t threads[WORKERS + 1];
    install();
    self.pool = pool_open(&self.vm, TOTAL_BYTES);
    MUST(self.pool);
    check_streams();
    pthread_create(&threads[WORKERS], NULL, gpu, NULL);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
    sleep(count > 1 ? (unsigned)atoi(arguments[1]) : 2);
    while (atomic_load(&self.next_block) <= ENOUGH || atomic_load(&self.crossed) <= ENOUGH / 10)
        usleep(10000); /* however busy the machine is */
    atomic_store(&self.stop, true);
    for (size_t i = 0; i <= WORKERS; i++)
        pthread_join(threads[i], NULL);
    struct arena_figures figures = pool_figures(self.pool);
    MUST(figures.used_bytes == 0 && figures.blocks == 0 && figures.page_bytes == 0);
    printf("pool_threads: %u blocks, %u given back on another stream, %u refused\n",
           atomic_load(&self.next_block), atomic_load(&self.crossed), atomic_load(&self.full));
    return 0;
}
