/* process_stat.c: see process_stat.h. It must not be misled by a name: that is field 2, and may
 * hold spaces and brackets. */
#include "base/process_stat.h"

#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>

/* proc_pid_stat(5). */
enum { STATE = 3, PARENT = 4, USER = 14, SYSTEM = 15, THREADS = 20, START = 22 };

struct process_stat process_stat(uint64_t pid) {
    char path[48], line[1024];
    struct text text = TEXT_IN(path);
    struct process_stat stat = {0};
    text_format(&text, "/proc/%llu/stat", (unsigned long long)pid);
    file_read_start(path, line, sizeof line);
    const char *name = strchr(line, '('), *p = strrchr(line, ')');
    if (name && p > name) {
        text = TEXT_IN(stat.name);
        text_add_n(&text, name + 1, (size_t)(p - name) - 1);
    }
    for (int field = STATE; p && field <= START && (p = strchr(p + 1, ' ')); field++) {
        stat.state = field == STATE ? p[1] : stat.state;
        stat.parent = field == PARENT ? strtoull(p, NULL, 10) : stat.parent;
        stat.worked_ticks += field == USER || field == SYSTEM ? strtoull(p, NULL, 10) : 0;
        stat.threads = field == THREADS ? strtoull(p, NULL, 10) : stat.threads;
        stat.start_ticks = field == START ? strtoull(p, NULL, 10) : stat.start_ticks;
    }
    return stat;
}

uint64_t process_start_ticks(uint64_t pid) {
    struct process_stat stat = process_stat(pid);
    bool ended = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
    return ended ? 0 : stat.start_ticks;
}

uint64_t process_key(uint64_t pid) {
    uint64_t start = process_start_ticks(pid);
    return start ? pid << 32 | (uint32_t)start : 0;
}

bool process_key_lives(uint64_t key) {
    return key && process_key(key >> 32) == key;
}
