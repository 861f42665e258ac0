/* memory.c: see memory.h. It must read one small file, when memory was refused or the
 * program rests. */
#include "host/memory.h"

#include "base/base.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

/* Lines are "Name:  NUMBER kB". The program chooses its own name, which is in one of them. */
static uint64_t kib_of(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0) {
            uint64_t kib = strtoull(line + length, NULL, 10);
            return kib < UINT64_MAX / KIBIBYTE ? kib * KIBIBYTE : 0;
        }
    }
    return 0;
}

struct host_memory host_memory_read(void) {
    char text[512]; /* both are in its first lines */
    file_read_start("/proc/meminfo", text, sizeof text);
    return (struct host_memory){kib_of(text, "MemTotal:"), kib_of(text, "MemAvailable:")};
}

struct host_memory_own host_memory_in(const char *status) {
    return (struct host_memory_own){kib_of(status, "RssAnon:"), kib_of(status, "RssShmem:"),
                                    kib_of(status, "RssFile:"), kib_of(status, "VmSwap:")};
}

struct host_memory_own host_memory_own(void) {
    char text[4096]; /* before them is a list of groups, mostly short */
    file_read_start("/proc/self/status", text, sizeof text);
    return host_memory_in(text);
}

uint64_t host_memory_own_bytes(void) {
    struct host_memory_own own = host_memory_own();
    return own.anon_bytes + own.shared_bytes;
}
