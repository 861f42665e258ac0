/* fake_driver.c: see fake_driver.h. */
#include "fake_driver.h"

#include <sched.h>
#include <string.h>

#define BASE ((uint64_t)1 << 40)

_Atomic(void *) real_pointers[REAL_COUNT];
struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_handle = 1};
THREAD_LOCAL unsigned seed;

unsigned below(unsigned bound) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % bound;
}

void dawdle(void) {
    unsigned kind = below(8);
    if (fake.prompt)
        return;
    if (kind == 0)
        usleep(below(200));
    else if (kind < 4)
        sched_yield();
}

size_t place_of(uint64_t address) {
    MUST(address >= BASE && address % PAGE_BYTES == 0);
    return (size_t)((address - BASE) / PAGE_BYTES);
}

static CUresult fake_create(CUmemGenericAllocationHandle *handle, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags) {
    (void)properties;
    (void)flags;
    size_t npages = bytes / PAGE_BYTES;
    MUST(npages * PAGE_BYTES == bytes && npages > 0);
    pthread_mutex_lock(&fake.lock);
    atomic_fetch_add(&fake.calls, 1);
    bool room = fake.pages_out + npages <= fake.capacity && fake.next_handle < HANDLES &&
                (!fake.largest || npages <= fake.largest);
    fake.large += room && npages > 1;
    fake.pages_out += room ? (unsigned)npages : 0;
    fake.pages_made += room ? npages : 0;
    *handle = room ? fake.next_handle++ : 0;
    fake.npages[*handle] = (unsigned)npages;
    pthread_mutex_unlock(&fake.lock);
    return room ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void meanwhile(void) {
    if (fake.meanwhile)
        fake.meanwhile();
}

static CUresult fake_release(CUmemGenericAllocationHandle handle) {
    atomic_fetch_add(&fake.calls, 1);
    if (fake.slow_us)
        usleep(fake.slow_us);
    meanwhile();
    dawdle();
    pthread_mutex_lock(&fake.lock);
    MUST(handle && handle < fake.next_handle && !fake.mapped_at[handle]);
    fake.mapped_at[handle] = 2; /* never again */
    fake.pages_out -= fake.npages[handle];
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

CUresult fake_reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr at,
                      unsigned long long flags) {
    (void)alignment;
    (void)at;
    (void)flags;
    atomic_fetch_add(&fake.calls, 1);
    pthread_mutex_lock(&fake.lock);
    size_t count = bytes / PAGE_BYTES, first = 0;
    for (size_t i = 0; i < count; i++)
        if (fake.place[first + i] != 0)
            first += i + 1, i = (size_t)-1;
    MUST(first + count < PLACES);
    for (size_t i = 0; i < count; i++)
        fake.place[first + i] = 1; /* reserved; handles are told by their own mark */
    pthread_mutex_unlock(&fake.lock);
    *address = BASE + first * PAGE_BYTES;
    return CUDA_SUCCESS;
}

CUresult fake_free(CUdeviceptr address, size_t bytes) {
    atomic_fetch_add(&fake.calls, 1);
    pthread_mutex_lock(&fake.lock);
    for (size_t i = place_of(address); i < place_of(address) + bytes / PAGE_BYTES; i++) {
        MUST(fake.place[i] == RESERVED);
        fake.place[i] = 0;
    }
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_map(CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)offset;
    (void)flags;
    atomic_fetch_add(&fake.calls, 1);
    dawdle();
    pthread_mutex_lock(&fake.lock);
    size_t i = place_of(address);
    MUST(bytes == fake.npages[handle] * PAGE_BYTES && fake.mapped_at[handle] == 0);
    for (size_t k = i; k < i + fake.npages[handle]; k++) {
        MUST(fake.place[k] == RESERVED);
        fake.place[k] = FIRST_HANDLE + handle;
        fake.open_to[k] = 0;
    }
    fake.mapped_at[handle] = 1;
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

/* A call covers whole mappings. */
static void check_whole(CUdeviceptr address, size_t bytes) {
    size_t first = place_of(address), behind = first + bytes / PAGE_BYTES;
    MUST(fake.place[first] >= FIRST_HANDLE && fake.place[behind - 1] >= FIRST_HANDLE);
    MUST(first == 0 || fake.place[first] != fake.place[first - 1]);
    MUST(fake.place[behind] != fake.place[behind - 1]);
}

static CUresult fake_unmap(CUdeviceptr address, size_t bytes) {
    atomic_fetch_add(&fake.calls, 1);
    meanwhile();
    dawdle();
    pthread_mutex_lock(&fake.lock);
    check_whole(address, bytes);
    for (size_t i = place_of(address); i < place_of(address) + bytes / PAGE_BYTES; i++) {
        MUST(fake.place[i] >= FIRST_HANDLE && !atomic_load(&fake.busy[i]));
        fake.mapped_at[fake.place[i] - FIRST_HANDLE] = 0;
        fake.place[i] = RESERVED;
        fake.open_to[i] = 0;
    }
    pthread_mutex_unlock(&fake.lock);
    dawdle();
    return CUDA_SUCCESS;
}

static CUresult fake_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                            size_t count) {
    atomic_fetch_add(&fake.calls, 1);
    MUST(count > 0 && access[count - 1].location.id == (int)count - 1);
    dawdle();
    pthread_mutex_lock(&fake.lock);
    check_whole(address, bytes);
    for (size_t i = place_of(address); i < place_of(address) + bytes / PAGE_BYTES; i++) {
        MUST(fake.place[i] >= FIRST_HANDLE);
        fake.open_to[i] = fake.open_to[i] > count ? fake.open_to[i] : count;
    }
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

static CUresult fake_info(size_t *free_bytes, size_t *total_bytes) {
    atomic_fetch_add(&fake.infos, 1);
    pthread_mutex_lock(&fake.lock);
    *free_bytes = (fake.capacity - fake.pages_out) * fake.boast * PAGE_BYTES;
    pthread_mutex_unlock(&fake.lock);
    *total_bytes = (fake.capacity + fake.pages_elsewhere) * fake.boast * PAGE_BYTES;
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
    atomic_fetch_add(&fake.asked, 1);
    if (atomic_load(&fake.capturing))
        atomic_fetch_add(&fake.asked_during_capture, 1);
    return CUDA_SUCCESS;
}

/* A stream that was destroyed is never asked: a card's driver would crash. */
static CUresult ask_stream(CUstream stream) {
    size_t i = (size_t)(uintptr_t)stream - FIRST_STREAM;
    MUST(i >= STREAMS || !atomic_load(&fake.dead[i]));
    CUresult result = ask();
    MUST(i >= STREAMS || !atomic_load(&fake.dead[i]));
    return result;
}

static bool at_work(void) {
    bool busy = false;
    pthread_mutex_lock(&fake.lock);
    busy = fake.answers > 0;
    fake.answers -= busy;
    pthread_mutex_unlock(&fake.lock);
    return busy;
}

static void finish(void) {
    pthread_mutex_lock(&fake.lock);
    fake.answers = 0;
    pthread_mutex_unlock(&fake.lock);
}

static CUresult fake_synchronize(CUstream stream) {
    finish();
    return ask_stream(stream);
}

/* Every other time it has work to do. */
static CUresult fake_stream_query(CUstream stream) {
    CUresult result = ask_stream(stream);
    return at_work() || !below(2) ? CUDA_ERROR_NOT_READY : result;
}

static CUresult fake_record(CUevent event, CUstream stream) {
    MUST(event != NULL);
    return ask_stream(stream);
}

static CUresult fake_query(CUevent event) {
    MUST(event != NULL);
    CUresult result = ask();
    return at_work() ? CUDA_ERROR_NOT_READY : result;
}

static CUresult fake_record_context(CUcontext context, CUevent event) {
    MUST(context == (CUcontext)&fake && event != NULL);
    return ask();
}

static CUresult fake_event_synchronize(CUevent event) {
    MUST(event != NULL);
    finish();
    return ask();
}

static CUresult fake_synchronize_all(void) {
    finish();
    return ask();
}

static CUresult fake_event(CUevent *event, unsigned flags) {
    (void)flags;
    *event = (CUevent)&fake;
    return CUDA_SUCCESS;
}

static CUresult fake_current(CUcontext *context) {
    *context = (CUcontext)&fake;
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

void fake_install(unsigned capacity) {
    fake.capacity = capacity;
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
        {ID_cuCtxSynchronize, (void *)fake_synchronize_all},
        {ID_cuEventCreate, (void *)fake_event},
        {ID_cuEventRecord, (void *)fake_record},
        {ID_cuEventQuery, (void *)fake_query},
        {ID_cuEventSynchronize, (void *)fake_event_synchronize},
        {ID_cuCtxGetCurrent, (void *)fake_current},
        {ID_cuCtxSetCurrent, (void *)fake_set_current},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        atomic_store(&real_pointers[all[i].id], all[i].function);
}

void fake_install_context_event(void) {
    atomic_store(&real_pointers[ID_cuCtxRecordEvent], (void *)fake_record_context);
}
