/* memory.c: see memory.h. It must read one small file, when memory was refused or the
 * program rests. */
#include "host/memory.h"

#include "base/file.h"
#include "base/parse.h"

struct host_memory host_memory_read(void) {
    char text[512]; /* both are in its first lines */
    file_read_start("/proc/meminfo", text, sizeof text);
    return (struct host_memory){parse_kib_line(text, "MemTotal:"),
                                parse_kib_line(text, "MemAvailable:")};
}

struct host_memory_own host_memory_in(const char *status) {
    return (struct host_memory_own){
        parse_kib_line(status, "RssAnon:"), parse_kib_line(status, "RssShmem:"),
        parse_kib_line(status, "RssFile:"), parse_kib_line(status, "VmSwap:")};
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
