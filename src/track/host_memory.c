/* host_memory.c: see host_memory.h. It must read one small file, and only when memory was refused.
 */
#include "track/host_memory.h"

#include "base/base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t kib_after(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found ? strtoull(found + strlen(name), NULL, 10) * KIBIBYTE : 0;
}

struct host_memory host_memory_read(void) {
    char text[512]; /* both are in its first lines */
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    return (struct host_memory){kib_after(text, "MemTotal:"), kib_after(text, "MemAvailable:")};
}
