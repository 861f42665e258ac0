/* doctor_processes.c: who uses CUDA without the library, and why it has not got it. It reads /proc
 * of this user's processes and touches none of them. */
#include "cli/doctor_checks.h"
#include "cli/finding.h"
#include "read/running.h"
#include "base/base.h"
#include "base/process_stat.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TOLD = 64 }; /* more lines are not read */

/* What a file of /proc holds, to be freed; NULL: it may not be read, or the process is gone. */
static char *read_all(pid_t pid, const char *name, size_t *length) {
    char path[64], *data = NULL;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *in = fopen(path, "re");
    FILE *out = in ? open_memstream(&data, length) : NULL;
    char piece[4096];
    for (size_t n; out && (n = fread(piece, 1, sizeof piece, in)) > 0;)
        fwrite(piece, 1, n, out);
    if (out)
        fclose(out);
    if (in)
        fclose(in);
    return data;
}

static bool descends(pid_t pid, pid_t ancestor) {
    for (int i = 0; i < 64 && pid > 1; i++, pid = (pid_t)process_stat((uint64_t)pid).parent)
        if (pid == ancestor)
            return true;
    return false;
}

static bool has_library_in_environment(pid_t pid) {
    size_t length = 0;
    char *environment = read_all(pid, "environ", &length);
    bool found = false;
    for (size_t at = 0; environment && at < length; at += strlen(environment + at) + 1)
        found = found || (strncmp(environment + at, "LD_PRELOAD=", 11) == 0 &&
                          strstr(environment + at, "libvramgc.so"));
    free(environment);
    return found;
}

static void tell(pid_t pid, bool below) {
    struct process_stat stat = process_stat((uint64_t)pid);
    const char *why = has_library_in_environment(pid)
                          ? "LD_PRELOAD names it, but the loader did not take it: a set-uid or "
                            "statically linked program"
                      : below ? "LD_PRELOAD was cleared on the way: env -i, sudo, a service or a "
                                "container starts with an environment of its own"
                              : "it was not started by vramgc run, nor with LD_PRELOAD";
    finding(below ? MARK_WRONG : MARK_NOTE, "process", "%d (%s) uses CUDA without the library: %s",
            (int)pid, *stat.name ? stat.name : "?", why);
}

size_t doctor_processes(pid_t ancestor) {
    static pid_t told[MOST_TOLD];
    static size_t count;
    DIR *list = opendir("/proc");
    for (struct dirent *entry; list && count < MOST_TOLD && (entry = readdir(list));) {
        pid_t pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;
        bool known = pid == 0;
        for (size_t i = 0; i < count; i++)
            known = known || told[i] == pid;
        if (known || (ancestor && !descends(pid, ancestor)) || !running_is_stranger((uint64_t)pid))
            continue;
        told[count++] = pid;
        tell(pid, ancestor != 0);
    }
    if (list)
        closedir(list);
    return count;
}
