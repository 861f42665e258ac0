/* clock.c: lets a test set the clock of the command and of the library. Nobody else may: the
 * variable is no setting, and a program without it reads the machine's clock. It must never fail
 * loudly: a file that is none is left alone. */
#include "base/base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const _Atomic uint64_t nothing;
const _Atomic uint64_t *clock_ahead_ns = &nothing;

/* The file holds one number, nanoseconds; who writes a greater one there while programs run moves
 * their time on. Before other constructors, which may read the clock. */
__attribute__((constructor(101))) static void clock_begin(void) {
    const char *path = getenv("VRAMGC_TEST_CLOCK");
    int file = path && *path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat status;
    if (file < 0)
        return;
    void *number = MAP_FAILED;
    if (fstat(file, &status) == 0 && status.st_size == sizeof *clock_ahead_ns)
        number = mmap(NULL, sizeof *clock_ahead_ns, PROT_READ, MAP_SHARED, file, 0);
    if (number != MAP_FAILED)
        clock_ahead_ns = number;
    close(file);
}
