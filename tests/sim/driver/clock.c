/* What time it is for the device. SIMGPU_CLOCK has a test move it on; nothing else may. */
#include "queue.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const _Atomic uint64_t not_ahead;
static const _Atomic uint64_t *ahead_ns = &not_ahead;

void clock_begin(void) {
    const char *path = sim.config.clock_file;
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat status;
    void *number = MAP_FAILED;
    if (file >= 0 && fstat(file, &status) == 0 && status.st_size == sizeof *ahead_ns)
        number = mmap(NULL, sizeof *ahead_ns, PROT_READ, MAP_SHARED, file, 0);
    if (number != MAP_FAILED)
        ahead_ns = number;
    else if (path)
        fprintf(stderr, "simgpu: SIMGPU_CLOCK=%s is no file of 8 bytes\n", path);
    if (file >= 0)
        close(file);
}

uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec + *ahead_ns;
}

uint64_t machine_ns(uint64_t time_ns) {
    return time_ns > *ahead_ns ? time_ns - *ahead_ns : 0;
}
