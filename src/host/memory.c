/* memory.c: see memory.h. It must read one small file, when memory was refused or the
 * program rests. */
#include "host/memory.h"

#include "base/base.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

static uint64_t kib_after(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found ? strtoull(found + strlen(name), NULL, 10) * KIBIBYTE : 0;
}

struct host_memory host_memory_read(void) {
    char text[512]; /* both are in its first lines */
    file_read_start("/proc/meminfo", text, sizeof text);
    return (struct host_memory){kib_after(text, "MemTotal:"), kib_after(text, "MemAvailable:")};
}

uint64_t host_memory_own_bytes(void) {
    char text[2048];
    file_read_start("/proc/self/status", text, sizeof text);
    return kib_after(text, "RssAnon:") + kib_after(text, "RssShmem:");
}
