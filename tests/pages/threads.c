/* threads.c: the page engine under many threads, on a small driver of its own that checks each call
 * and is slow where it hurts: while a page is on its way, and between two calls that belong
 * together. The device has the pages that the threads need at most and two more: a block that is
 * refused is an error. usage: threads SECONDS [blocks | frugal | captures | grants | streams] */
#include "pages/internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORKERS = 3,
    SEGMENT_PAGES = 8,
    SEGMENTS = 12,
    CAPACITY = WORKERS * SEGMENT_PAGES + 2, /* two for what is just being mapped and unmapped */
    PLACES = 4096,
    STREAMS = 8, /* which come and go */
    FIRST_STREAM = 1000,
    HANDLES = 1 << 20
};

#define BASE ((uint64_t)1 << 40)

_Atomic(void *) real_pointers[REAL_COUNT];

static struct {
    pthread_mutex_t lock;
    uint64_t place[PLACES]; /* handle mapped there */
    size_t open_to[PLACES]; /* so many devices */
    uint64_t next_handle;
    unsigned pages_out; /* created and not yet released */
    unsigned char mapped_at[HANDLES];
    uint64_t next_place;
    _Atomic uint64_t busy[PLACES]; /* work that uses the page: the GPU may not lose it */
    atomic_bool capturing;
    atomic_uint asked_during_capture;
    atomic_bool stop;
    atomic_size_t devices;     /* that have been let in */
    atomic_bool dead[STREAMS]; /* the driver has destroyed it */
    struct pages *pages;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_handle = 1};

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "threads: line %d: %s\n", __LINE__, #condition);                       \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static THREAD_LOCAL unsigned seed;

static unsigned below(unsigned bound) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % bound;
}

/* Others get the processor at the worst moments. */
static void dawdle(void) {
    unsigned kind = below(8);
    if (kind == 0)
        usleep(below(200));
    else if (kind < 4)
        sched_yield();
}

static size_t place_of(uint64_t address) {
    MUST(address >= BASE && address % PAGE_BYTES == 0);
    return (size_t)((address - BASE) / PAGE_BYTES);
}

/* ---- the driver ---- */

static CUresult fake_create(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags) {
    (void)properties;
    (void)flags;
    MUST(bytes == PAGE_BYTES);
    pthread_mutex_lock(&self.lock);
    bool room = self.pages_out < CAPACITY && self.next_handle < HANDLES;
    self.pages_out += room;
    *handle = room ? self.next_handle++ : 0;
    pthread_mutex_unlock(&self.lock);
    return room ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult fake_release(CUmemGenericAllocationHandle handle) {
    dawdle();
    pthread_mutex_lock(&self.lock);
    MUST(handle && handle < self.next_handle && !self.mapped_at[handle]);
    self.mapped_at[handle] = 2; /* never again */
    self.pages_out--;
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr at,
                             unsigned long long flags) {
    (void)alignment;
    (void)at;
    (void)flags;
    pthread_mutex_lock(&self.lock);
    size_t count = bytes / PAGE_BYTES, first = 0;
    for (size_t i = 0; i < count; i++)
        if (self.place[first + i] != 0)
            first += i + 1, i = (size_t)-1;
    MUST(first + count < PLACES);
    for (size_t i = 0; i < count; i++)
        self.place[first + i] = 1; /* reserved; handles are told by their own mark */
    pthread_mutex_unlock(&self.lock);
    *address = BASE + first * PAGE_BYTES;
    return CUDA_SUCCESS;
}

enum { RESERVED = 1, FIRST_HANDLE = 2 };

static CUresult fake_free(CUdeviceptr address, size_t bytes) {
    pthread_mutex_lock(&self.lock);
    for (size_t i = place_of(address); i < place_of(address) + bytes / PAGE_BYTES; i++) {
        MUST(self.place[i] == RESERVED);
        self.place[i] = 0;
    }
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_map(CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)offset;
    (void)flags;
    dawdle();
    pthread_mutex_lock(&self.lock);
    size_t i = place_of(address);
    MUST(bytes == PAGE_BYTES && self.place[i] == RESERVED && self.mapped_at[handle] == 0);
    self.place[i] = FIRST_HANDLE + handle;
    self.open_to[i] = 0;
    self.mapped_at[handle] = 1;
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_unmap(CUdeviceptr address, size_t bytes) {
    dawdle();
    pthread_mutex_lock(&self.lock);
    for (size_t i = place_of(address); i < place_of(address) + bytes / PAGE_BYTES; i++) {
        MUST(self.place[i] >= FIRST_HANDLE && !atomic_load(&self.busy[i]));
        self.mapped_at[self.place[i] - FIRST_HANDLE] = 0;
        self.place[i] = RESERVED;
        self.open_to[i] = 0;
    }
    pthread_mutex_unlock(&self.lock);
    dawdle();
    return CUDA_SUCCESS;
}

static CUresult fake_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                            size_t count) {
    MUST(count > 0 && access[count - 1].location.id == (int)count - 1);
    dawdle();
    pthread_mutex_lock(&self.lock);
    for (size_t i = place_of(address); i < place_of(address) + bytes / PAGE_BYTES; i++) {
        MUST(self.place[i] >= FIRST_HANDLE);
        self.open_to[i] = self.open_to[i] > count ? self.open_to[i] : count;
    }
    pthread_mutex_unlock(&self.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_info(size_t *free_bytes, size_t *total_bytes) {
    pthread_mutex_lock(&self.lock);
    *free_bytes = (CAPACITY - self.pages_out) * PAGE_BYTES;
    pthread_mutex_unlock(&self.lock);
    *total_bytes = CAPACITY * PAGE_BYTES;
    return CUDA_SUCCESS;
}

static CUresult fake_grain(size_t *bytes, const CUmemAllocationProp *properties,
                           CUmemAllocationGranularity_flags flags) {
    (void)properties;
    (void)flags;
    *bytes = PAGE_BYTES;
    return CUDA_SUCCESS;
}

static uint64_t word;

static CUresult fake_write(CUdeviceptr to, const void *from, size_t bytes) {
    (void)to;
    memcpy(&word, from, bytes);
    return CUDA_SUCCESS;
}

static CUresult fake_read(void *to, CUdeviceptr from, size_t bytes) {
    (void)from;
    memcpy(to, &word, bytes);
    return CUDA_SUCCESS;
}

/* Asking the GPU: each of them would end a capture. */
static CUresult ask(void) {
    dawdle();
    if (atomic_load(&self.capturing))
        atomic_fetch_add(&self.asked_during_capture, 1);
    return CUDA_SUCCESS;
}

/* A stream that was destroyed is never asked: a card's driver would crash. */
static CUresult ask_stream(CUstream stream) {
    size_t i = (size_t)(uintptr_t)stream - FIRST_STREAM;
    MUST(i >= STREAMS || !atomic_load(&self.dead[i]));
    CUresult result = ask();
    MUST(i >= STREAMS || !atomic_load(&self.dead[i]));
    return result;
}

static CUresult fake_synchronize(CUstream stream) {
    return ask_stream(stream);
}

/* Every other time it has work to do. */
static CUresult fake_stream_query(CUstream stream) {
    CUresult result = ask_stream(stream);
    return below(2) ? result : CUDA_ERROR_NOT_READY;
}

static CUresult fake_record(CUevent event, CUstream stream) {
    MUST(event != NULL);
    return ask_stream(stream);
}

static CUresult fake_query(CUevent event) {
    MUST(event != NULL);
    return ask();
}

static CUresult fake_synchronize_all(void) {
    return ask();
}

static CUresult fake_event(CUevent *event, unsigned flags) {
    (void)flags;
    *event = (CUevent)&self;
    return CUDA_SUCCESS;
}

static CUresult fake_current(CUcontext *context) {
    *context = (CUcontext)&self;
    return CUDA_SUCCESS;
}

static CUresult fake_set_current(CUcontext context) {
    (void)context;
    return CUDA_SUCCESS;
}

void *real_find(enum real_id id) {
    (void)id;
    return NULL;
}

static void install(void) {
    const struct {
        enum real_id id;
        void *function;
    } all[] = {
        {ID_cuMemCreate, (void *)fake_create},
        {ID_cuMemRelease, (void *)fake_release},
        {ID_cuMemAddressReserve, (void *)fake_reserve},
        {ID_cuMemAddressFree, (void *)fake_free},
        {ID_cuMemMap, (void *)fake_map},
        {ID_cuMemUnmap, (void *)fake_unmap},
        {ID_cuMemSetAccess, (void *)fake_access},
        {ID_cuMemGetInfo_v2, (void *)fake_info},
        {ID_cuMemGetAllocationGranularity, (void *)fake_grain},
        {ID_cuMemcpyHtoD_v2, (void *)fake_write},
        {ID_cuMemcpyDtoH_v2, (void *)fake_read},
        {ID_cuStreamSynchronize, (void *)fake_synchronize},
        {ID_cuStreamQuery, (void *)fake_stream_query},
        {ID_cuEventSynchronize, (void *)fake_query},
        {ID_cuCtxSynchronize, (void *)fake_synchronize_all},
        {ID_cuEventCreate, (void *)fake_event},
        {ID_cuEventRecord, (void *)fake_record},
        {ID_cuEventQuery, (void *)fake_query},
        {ID_cuCtxGetCurrent, (void *)fake_current},
        {ID_cuCtxSetCurrent, (void *)fake_set_current},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        atomic_store(&real_pointers[all[i].id], all[i].function);
}

/* ---- the program ---- */

/* The GPU works on a live block. */
static void work_on(uint64_t address, size_t count) {
    size_t devices = atomic_load(&self.devices);
    for (size_t i = place_of(address); i < place_of(address) + count; i++)
        atomic_fetch_add(&self.busy[i], 1);
    pthread_mutex_lock(&self.lock);
    for (size_t i = place_of(address); i < place_of(address) + count; i++)
        MUST(self.place[i] >= FIRST_HANDLE && self.open_to[i] >= devices);
    pthread_mutex_unlock(&self.lock);
    dawdle();
    for (size_t i = place_of(address); i < place_of(address) + count; i++)
        atomic_fetch_sub(&self.busy[i], 1);
}

/* One allocator each, on its own segments, but memory for one of them at a time. */
static void *worker(void *argument) {
    uint64_t segments[SEGMENTS / WORKERS];
    uint64_t stream = 100 + (uint64_t)(uintptr_t)argument;
    seed = (unsigned)(uintptr_t)argument;
    for (size_t i = 0; i < ARRAY_LENGTH(segments); i++)
        MUST((segments[i] = pages_segment(self.pages, SEGMENT_PAGES * PAGE_BYTES, stream)) != 0);
    while (!atomic_load(&self.stop)) {
        uint64_t *segment = &segments[below((unsigned)ARRAY_LENGTH(segments))];
        size_t first = below(SEGMENT_PAGES), count = 1 + below(SEGMENT_PAGES - (unsigned)first);
        uint64_t address = *segment + first * PAGE_BYTES;
        MUST(pages_use(self.pages, address, count * PAGE_BYTES, false));
        work_on(address, count);
        pages_leave(self.pages, address, count * PAGE_BYTES, below(20) > 0);
        if (below(50))
            continue;
        MUST(pages_end(self.pages, *segment));
        *segment = pages_segment(self.pages, SEGMENT_PAGES * PAGE_BYTES, stream);
        MUST(*segment);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(segments); i++)
        MUST(pages_end(self.pages, segments[i]));
    return NULL;
}

/* As vramgc's own thread does, at all moments; and now and then as a rescue. */
static void *giver(void *argument) {
    seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&self.stop)) {
        if (below(4))
            pages_give_back(self.pages, UINT64_MAX);
        else
            pages_give_back_now(self.pages, 4 * PAGE_BYTES);
        struct pages_figures figures = pages_figures(self.pages);
        MUST(figures.idle_bytes <= figures.mapped_bytes);
        MUST(figures.physical_bytes <= (CAPACITY + WORKERS) * PAGE_BYTES);
        dawdle();
    }
    return NULL;
}

/* A range in which parts are granted and revoked, and blocks reach over several of them. */
static void *granter(void *argument) {
    enum { GRANTS = 4, GRANT_PAGES = SEGMENT_PAGES / GRANTS };
    const uint64_t grant_bytes = GRANT_PAGES * PAGE_BYTES;
    bool granted[2 * GRANTS] = {false};
    CUdeviceptr range;
    seed = (unsigned)(uintptr_t)argument;
    fake_reserve(&range, 2 * GRANTS * grant_bytes, 0, 0, 0);
    MUST(pages_range(self.pages, range, 2 * GRANTS * grant_bytes, below(2)));
    pages_know_stream(self.pages, 100 + (uint64_t)(uintptr_t)argument);
    while (!atomic_load(&self.stop)) {
        unsigned first = below(GRANTS), count = 1 + below(GRANTS);
        uint64_t address = range + first * grant_bytes, bytes = count * grant_bytes;
        for (unsigned i = first; i < first + count; i++)
            if (!granted[i])
                MUST(granted[i] = pages_grant(self.pages, range + i * grant_bytes, grant_bytes));
        MUST(!pages_grant(self.pages, address, bytes) && pages_own(self.pages, address));
        MUST(pages_use(self.pages, address, bytes, false));
        work_on(address, count * GRANT_PAGES);
        pages_leave(self.pages, address, bytes, below(20) > 0);
        unsigned i = below(2 * GRANTS);
        if (!granted[i] || below(3))
            continue;
        MUST(pages_revoke(self.pages, range + i * grant_bytes, grant_bytes));
        granted[i] = false;
        for (size_t k = 0; k < GRANT_PAGES; k++)
            MUST(self.place[place_of(range + i * grant_bytes) + k] == RESERVED);
        MUST(!pages_revoke(self.pages, range + i * grant_bytes, grant_bytes));
    }
    for (unsigned i = 0; i < 2 * GRANTS; i++)
        MUST(!granted[i] || (!pages_range_end(self.pages, range) &&
                             pages_revoke(self.pages, range + i * grant_bytes, grant_bytes)));
    MUST(pages_range_end(self.pages, range));
    MUST(!pages_range_end(self.pages, range) && !pages_own(self.pages, range));
    fake_free(range, 2 * GRANTS * grant_bytes);
    return NULL;
}

/* Other devices are let in while blocks come and go. */
static void *opener(void *argument) {
    enum { OTHERS = 8 };
    seed = (unsigned)(uintptr_t)argument;
    for (unsigned device = 1; device <= OTHERS; device++) {
        usleep(20000 + below(20000));
        MUST(pages_let_in(self.pages, device) && pages_let_in(self.pages, device));
        atomic_fetch_add(&self.devices, 1);
    }
    return giver(argument);
}

/* Streams come and go. */
static void *streamer(void *argument) {
    seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&self.stop)) {
        unsigned i = below(STREAMS);
        if (atomic_exchange(&self.dead[i], false)) {
            pages_know_stream(self.pages, FIRST_STREAM + i);
        } else {
            pages_stream_gone(self.pages, FIRST_STREAM + i);
            atomic_store(&self.dead[i], true);
        }
        dawdle();
    }
    return NULL;
}

static bool is_capturing(void) {
    return atomic_load(&self.capturing);
}

/* Captures begin and end; whoever asks the GPU meanwhile would disturb one. */
static void *capturer(void *argument) {
    seed = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&self.stop)) {
        atomic_store(&self.capturing, true);
        pages_capture_begins();
        unsigned before = atomic_load(&self.asked_during_capture);
        usleep(below(300));
        MUST(atomic_load(&self.asked_during_capture) == before);
        atomic_store(&self.capturing, false);
        usleep(below(300));
    }
    return NULL;
}

/* Memory is not short here: while something is captured nobody could wait for the GPU. */
static void *small_worker(void *argument) {
    uint64_t stream = 100 + (uint64_t)(uintptr_t)argument;
    seed = (unsigned)(uintptr_t)argument;
    uint64_t segment = pages_segment(self.pages, 4 * PAGE_BYTES, stream);
    while (!atomic_load(&self.stop)) {
        MUST(pages_use(self.pages, segment, 4 * PAGE_BYTES, false));
        work_on(segment, 4);
        pages_leave(self.pages, segment, 4 * PAGE_BYTES, true);
    }
    MUST(pages_end(self.pages, segment));
    return NULL;
}

static void run(unsigned seconds, void *(*body)(void *), void *(*other)(void *)) {
    pthread_t threads[WORKERS + 2];
    for (size_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, body, (void *)(i + 1));
    pthread_create(&threads[WORKERS], NULL, giver, (void *)(uintptr_t)77);
    pthread_create(&threads[WORKERS + 1], NULL, other, (void *)(uintptr_t)99);
    sleep(seconds);
    atomic_store(&self.stop, true);
    for (size_t i = 0; i < WORKERS + 2; i++)
        pthread_join(threads[i], NULL);
}

/* At the end the driver has everything back. */
static void check_end(void) {
    pages_give_back_now(self.pages, UINT64_MAX);
    struct pages_figures figures = pages_figures(self.pages);
    MUST(figures.physical_bytes == 0 && figures.mapped_bytes == 0 && figures.kept_bytes == 0);
    MUST(figures.moving_bytes == 0 && figures.reserved_bytes == 0 && self.pages_out == 0);
    MUST(figures.refused_bytes == 0 && figures.creates == figures.releases);
    for (size_t i = 0; i < PLACES; i++)
        MUST(self.place[i] == 0);
    printf("threads: %llu mapped, %llu unmapped, %llu waits\n", (unsigned long long)figures.maps,
           (unsigned long long)figures.unmaps, (unsigned long long)figures.waits);
}

int main(int count, char **arguments) {
    unsigned seconds = count > 1 ? (unsigned)atoi(arguments[1]) : 2;
    const char *name = count > 2 ? arguments[2] : "blocks";
    bool captures = !strcmp(name, "captures"), grants = !strcmp(name, "grants");
    atomic_store(&self.devices, 1);
    seed = 1;
    install();
    self.pages = pages_open(0, is_capturing, !strcmp(name, "frugal"));
    MUST(self.pages);
    bool streams = !strcmp(name, "streams");
    run(seconds,
        captures ? small_worker
        : grants ? granter
                 : worker,
        captures  ? capturer
        : grants  ? opener
        : streams ? streamer
                  : giver);
    check_end();
    return 0;
}
