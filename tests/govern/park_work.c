/* park_work.c: work by several threads on two devices, each with a stream and a graph of its own,
 * that goes on however often the process is parked and woken: what comes back from the card is what
 * was written there.
 *   park_work until FILE     works until there is one
 *   park_work rests TIMES    works and rests so often, until it is parked. Then nothing of it is on
 *                            the card, as NVML tells, and to be asked what is free does not wake
 *                            it; each kind of call that is to wake it does
 *   park_work managed        has managed memory, and waits */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vramgc_format.h"

enum { THREADS = 4, DEVICES = 2, BYTES = 1 << 20, PATIENCE_S = 20 };

static atomic_bool over;
static unsigned rests;
static pthread_barrier_t all_rest;

#define OK(call)                                                                                   \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            printf("%s: %d\n", #call, (int)error);                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct worker {
    unsigned char *from, *to, *kept, *host; /* kept: written once */
    unsigned char *spare;                   /* nobody reads it */
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraphExec_t graph;
    CUfunction kernel;
    unsigned number;
};

static void begin(struct worker *worker) {
    cudaGraph_t graph;
    CUmodule module;
    OK(cudaSetDevice((int)(worker->number % DEVICES)));
    OK(cudaMalloc((void **)&worker->from, BYTES));
    OK(cudaMalloc((void **)&worker->to, BYTES));
    OK(cudaMalloc((void **)&worker->kept, BYTES));
    OK(cudaMalloc((void **)&worker->spare, BYTES));
    worker->host = malloc(BYTES);
    OK(cudaStreamCreateWithFlags(&worker->stream, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&worker->event, cudaEventDisableTiming));
    OK(cudaMemsetAsync(worker->kept, 200 + (int)worker->number, BYTES, worker->stream));
    OK(cudaStreamBeginCapture(worker->stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(worker->to, 0, BYTES, worker->stream));
    OK(cudaMemcpyAsync(worker->to, worker->from, BYTES / 2, cudaMemcpyDeviceToDevice,
                       worker->stream));
    OK(cudaStreamEndCapture(worker->stream, &graph));
    OK(cudaGraphInstantiate(&worker->graph, graph, 0));
    OK((cudaError_t)cuModuleLoadData(&module, "image"));
    OK((cudaError_t)cuModuleGetFunction(&worker->kernel, module, "kernel"));
}

static cudaError_t allocates(struct worker *worker) {
    void *p;
    (void)worker;
    OK(cudaMalloc(&p, 2 * BYTES));
    return cudaFree(p);
}

static cudaError_t allocates_async(struct worker *worker) {
    void *p;
    OK(cudaMallocAsync(&p, BYTES, worker->stream));
    return cudaFreeAsync(p, worker->stream);
}

static cudaError_t makes_event(struct worker *worker) {
    cudaEvent_t event;
    (void)worker;
    OK(cudaEventCreateWithFlags(&event, 0));
    return cudaEventDestroy(event);
}

static void nothing(void *with) {
    (void)with;
}

static cudaError_t calls_host(struct worker *worker) {
    return cudaLaunchHostFunc(worker->stream, nothing, NULL);
}

/* Kinds of calls, of the runtime and, linked, of the driver. */
#define CALL(name, ...)                                                                            \
    static cudaError_t name(struct worker *worker) {                                               \
        return (cudaError_t)(__VA_ARGS__);                                                         \
    }
#define TO   (worker->spare)
#define AT   ((CUdeviceptr)worker->spare)
#define BACK (worker->host)
CALL(copies, cudaMemcpyAsync(BACK, worker->kept, 16, cudaMemcpyDeviceToHost, worker->stream))
CALL(launches, cuLaunchKernel(worker->kernel, 1, 1, 1, 1, 1, 1, 0, worker->stream, NULL, NULL))
CALL(records, cudaEventRecord(worker->event, worker->stream))
CALL(sets, cudaMemset(TO, 0, 16))
CALL(copies_rows,
     cudaMemcpy2DAsync(TO, 64, BACK, 64, 64, 8, cudaMemcpyHostToDevice, worker->stream))
CALL(copies_peer, cudaMemcpyPeerAsync(TO, 0, TO, 0, 64, worker->stream))
CALL(waits, cudaStreamWaitEvent(worker->stream, worker->event, 0))
CALL(asks_stream, (cudaStreamQuery(worker->stream), 0)) /* it may be at work */
CALL(driver_copies, cuMemcpyHtoD(AT, BACK, 16))
CALL(driver_copies_back, cuMemcpyDtoHAsync(BACK, AT, 16, worker->stream))
CALL(driver_sets, cuMemsetD8Async(AT, 0, 16, worker->stream))
CALL(driver_records, cuEventRecord(worker->event, worker->stream))
CALL(driver_waits, worker ? cuCtxSynchronize() : CUDA_ERROR_INVALID_VALUE)
CALL(driver_asks, (cuEventQuery(worker->event), 0))

static cudaError_t (*const kinds[])(struct worker *worker) = {
    allocates,     allocates_async,    copies,      launches,       records,      sets,
    copies_rows,   copies_peer,        waits,       asks_stream,    makes_event,  calls_host,
    driver_copies, driver_copies_back, driver_sets, driver_records, driver_waits, driver_asks};

/* Of each kind, in turn. */
static void first_call(struct worker *worker) {
    static unsigned kind;
    OK(kinds[kind++ % (sizeof kinds / sizeof *kinds)](worker));
}

static void expect(struct worker *worker, const unsigned char *p, size_t bytes, unsigned value) {
    OK(cudaMemcpyAsync(worker->host, p, bytes, cudaMemcpyDeviceToHost, worker->stream));
    OK(cudaStreamSynchronize(worker->stream));
    for (size_t i = 0; i < bytes; i++)
        if (worker->host[i] != (unsigned char)value) {
            printf("byte %zu is %u, not %u\n", i, worker->host[i], value);
            exit(1);
        }
}

/* Past vramgc, which would take the question for a call that wants the card. */
static bool is_parked(void) {
    static CUresult (*get)(int, CUprocessState *);
    CUprocessState state;
    if (!get) {
        void *(*find)(void *, const char *) = NULL;
        *(void **)&find = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        find = find ? find : dlsym; /* of an older C library */
        *(void **)&get = find(dlopen("libcuda.so.1", RTLD_NOW), "cuCheckpointProcessGetState");
    }
    return get(getpid(), &state) == CUDA_SUCCESS && state == CU_PROCESS_STATE_CHECKPOINTED;
}

/* nvmlProcessInfo_t, and nvmlMemory_t. */
struct user {
    unsigned pid;
    unsigned long long bytes;
    unsigned instances[2];
};
struct memory {
    unsigned long long total, free, used;
};
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct user *users);

/* As where a container has used up its time: who parks it does not look for longer than an answer
 * takes, and the same question is under way when it does again. */
static void stop_parker(void) {
    static struct vramgc_file *file;
    if (!file)
        file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED,
                    open(getenv("VRAMGC_OUT"), O_RDWR), 0);
    pid_t parker = (pid_t)(file->parker >> 32);
    __atomic_fetch_add(&file->asking, 1, __ATOMIC_SEQ_CST);
    usleep(6000); /* a look or two */
    kill(parker, SIGSTOP);
    usleep(150000);
    kill(parker, SIGCONT);
    usleep(6000); /* a look or two */
    __atomic_fetch_sub(&file->asking, 1, __ATOMIC_SEQ_CST);
}

/* By one of the threads, for all. */
static void rest(struct worker *worker) {
    static size_t told_bytes[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        size_t total_bytes;
        OK(cudaSetDevice(i));
        OK(cudaMemGetInfo(&told_bytes[i], &total_bytes));
    }
    while (!is_parked())
        usleep(1000);
    for (int i = 0; i < 1000; i++) {
        struct memory memory;
        struct user users[8];
        size_t free_bytes, total_bytes;
        unsigned count = 8;
        void *device;
        if (i == 500)
            stop_parker();
        OK(cudaSetDevice(i % DEVICES));
        OK(cudaMemGetInfo(&free_bytes, &total_bytes));
        OK(nvmlDeviceGetHandleByIndex_v2((unsigned)(i % DEVICES), &device));
        OK(nvmlDeviceGetMemoryInfo(device, &memory));
        OK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, users));
        OK(free_bytes != told_bytes[i % DEVICES] || count != 0 || memory.used != 0);
    }
    OK(!is_parked());
    OK(cudaSetDevice((int)(worker->number % DEVICES)));
    signal(SIGALRM, SIG_DFL); /* GNU parallel leaves it ignored */
    alarm(PATIENCE_S);        /* which ends it where nobody wakes it */
    first_call(worker);
    while (is_parked()) /* some are answered without the card */
        usleep(1000);
    alarm(0);
}

static void *work(void *with) {
    struct worker *worker = with;
    begin(worker);
    for (unsigned i = 0; rests ? i < rests : !atomic_load(&over); i++) {
        memset(worker->host, (int)(i & 255), BYTES);
        OK(cudaMemcpyAsync(worker->from, worker->host, BYTES, cudaMemcpyHostToDevice,
                           worker->stream));
        OK(cudaGraphLaunch(worker->graph, worker->stream));
        if (rests && pthread_barrier_wait(&all_rest) == PTHREAD_BARRIER_SERIAL_THREAD)
            rest(worker);
        if (rests)
            pthread_barrier_wait(&all_rest);
        expect(worker, worker->to, BYTES / 2, i & 255);
        expect(worker, worker->to + BYTES / 2, BYTES / 2, 0);
        expect(worker, worker->kept, BYTES, 200 + worker->number);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    void *managed;
    if (argc > 1 && strcmp(argv[1], "managed") == 0) {
        OK(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal));
        puts("ready");
        fflush(stdout);
        pause();
    }
    rests = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    if (argc > 2 && strcmp(argv[1], "until") == 0)
        rests = 0;
    OK(nvmlInit_v2());
    pthread_barrier_init(&all_rest, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    while (!rests && access(argv[2], F_OK) != 0)
        usleep(10000);
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("all was as it was written");
}
