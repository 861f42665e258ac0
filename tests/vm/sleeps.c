/* sleeps.c: a thread that needs a page which another one is just unmapping sleeps until it is
 * there, and costs no processor: PyTorch's allocator is locked meanwhile. One that begins a capture
 * while another one waits for the GPU sleeps for a moment only. */
#include "threads.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

enum { PAGES = 2, LONGEST_MS = 20000, OFTEN = 20 };

static struct {
    uint64_t segment;
    real_cuMemUnmap_t unmap; /* the driver's */
    real_cuCtxSynchronize_t synchronize;
    atomic_bool calling;
    atomic_int waiter; /* the thread that waits */
    atomic_bool went_on;
} self;

/* As the kernel says it: S is asleep. */
static char state_of(int thread) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    int file = open(path, O_RDONLY);
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    const char *end = n > 0 ? strrchr(text, ')') : NULL;
    return end && end[1] ? end[2] : '?';
}

/* Not only for a moment, as in a call of the driver. */
static bool falls_asleep(void) {
    int asleep = 0;
    for (int i = 0; i < LONGEST_MS && asleep < OFTEN; i++) {
        int thread = atomic_load(&self.waiter);
        asleep = thread && state_of(thread) == 'S' ? asleep + 1 : 0;
        usleep(1000);
    }
    return asleep == OFTEN;
}

static CUresult slow_unmap(CUdeviceptr address, size_t bytes) {
    atomic_store(&self.calling, true);
    MUST(falls_asleep());
    return self.unmap(address, bytes);
}

static void called(void) {
    while (!atomic_load(&self.calling))
        usleep(1000);
    atomic_store(&self.waiter, (int)syscall(SYS_gettid));
}

static void *needs_pages(void *unused) {
    called();
    MUST(vm_commit(test.vm, self.segment, PAGES * PAGE_BYTES, false));
    return unused;
}

static pthread_t start(void *waiter(void *)) {
    pthread_t thread;
    atomic_store(&self.calling, false);
    atomic_store(&self.waiter, 0);
    pthread_create(&thread, NULL, waiter, NULL);
    return thread;
}

void sleeps(void) {
    self.segment = vm_reserve(test.vm, PAGES * PAGE_BYTES, 5);
    use(self.segment, PAGES);
    MUST(vm_fence_wait(test.vm));
    self.unmap = REAL(cuMemUnmap);
    pthread_t thread = start(needs_pages);
    atomic_store(&real_pointers[ID_cuMemUnmap], (void *)slow_unmap);
    MUST(vm_decommit(test.vm, IDLE_KEPT, PAGES) == PAGES);
    atomic_store(&real_pointers[ID_cuMemUnmap], (void *)self.unmap);
    pthread_join(thread, NULL);
    end_used(self.segment, PAGES);
}

/* --- work of the GPU that waits for the program --- */

/* As long as the program's thread has not gone on. */
static CUresult held_synchronize(void) {
    atomic_store(&self.calling, true);
    for (int i = 0; i < LONGEST_MS && !atomic_load(&self.went_on); i++)
        usleep(1000);
    MUST(atomic_load(&self.went_on));
    return self.synchronize();
}

static void *goes_on(void *unused) {
    called();
    vm_stream_gone(test.vm, 5);
    uint64_t before_ns = clock_ns();
    vm_capture_begin();
    MUST(clock_ns() - before_ns >= 100 * MILLISECOND_NS);
    atomic_store(&self.went_on, true);
    return unused;
}

void sleeps_for_nobody(void) {
    vm_stream_add(test.vm, 5);
    self.synchronize = REAL(cuCtxSynchronize);
    pthread_t thread = start(goes_on);
    atomic_store(&real_pointers[ID_cuCtxSynchronize], (void *)held_synchronize);
    MUST(vm_fence_wait(test.vm));
    atomic_store(&real_pointers[ID_cuCtxSynchronize], (void *)self.synchronize);
    pthread_join(thread, NULL);
}
