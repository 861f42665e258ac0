/* sleeps.c: a thread that needs a page which another one is just unmapping sleeps until it is
 * there, and costs no processor: PyTorch's allocator is locked meanwhile. */
#include "threads.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

enum { PAGES = 2, LONGEST_MS = 20000, OFTEN = 20 };

static struct {
    uint64_t segment;
    real_cuMemUnmap_t unmap; /* the driver's */
    atomic_bool unmapping;
    atomic_int waiter; /* the thread that waits */
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
    atomic_store(&self.unmapping, true);
    MUST(falls_asleep());
    return self.unmap(address, bytes);
}

static void *waiter(void *unused) {
    while (!atomic_load(&self.unmapping))
        usleep(1000);
    atomic_store(&self.waiter, (int)syscall(SYS_gettid));
    MUST(vm_commit(test.vm, self.segment, PAGES * PAGE_BYTES, false));
    return unused;
}

void sleeps(void) {
    pthread_t thread;
    self.segment = vm_reserve(test.vm, PAGES * PAGE_BYTES, 5);
    use(self.segment, PAGES);
    MUST(vm_fence_wait(test.vm));
    self.unmap = REAL(cuMemUnmap);
    pthread_create(&thread, NULL, waiter, NULL);
    atomic_store(&real_pointers[ID_cuMemUnmap], (void *)slow_unmap);
    MUST(vm_decommit(test.vm, IDLE_ATTACHED, PAGES) == PAGES);
    atomic_store(&real_pointers[ID_cuMemUnmap], (void *)self.unmap);
    pthread_join(thread, NULL);
    end_used(self.segment, PAGES);
}
