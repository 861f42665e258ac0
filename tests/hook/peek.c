/* peek.c: the figures of a statistics file that the tests of lifetimes ask for, one line of
 * words: peek FILE. Exit status 1 when the file is none. */
#include "vramgc_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct vramgc_file file;

/* How often cudaMalloc was called, also in vain. */
static unsigned long long mallocs(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_HOOKS; i++)
        if (strcmp(file.hooks[i].name, "cudaMalloc") == 0)
            return file.hooks[i].calls;
    return 0;
}

int main(int count, char **arguments) {
    static const char *const ends[] = {"unknown", "exit", "status"};
    FILE *in = count == 2 ? fopen(arguments[1], "rb") : NULL;
    if (!in || fread(&file, sizeof file, 1, in) != 1 ||
        memcmp(file.magic, VRAMGC_MAGIC, sizeof file.magic) != 0 || file.end > VRAMGC_END_STATUS) {
        fprintf(stderr, "peek: no statistics file\n");
        return 1;
    }
    const struct vramgc_device_stats *stats = &file.devices[0].stats;
    printf("pid=%llu end=%s started=%llu held=%llu peak=%llu calls=%llu mallocs=%llu "
           "internal_errors=%llu run=%s\n",
           (unsigned long long)file.pid, ends[file.end], (unsigned long long)file.started_ns,
           (unsigned long long)stats->held_bytes.current,
           (unsigned long long)stats->held_bytes.peak, (unsigned long long)stats->driver_calls,
           mallocs(), (unsigned long long)file.process.internal_errors, file.command_line);
    fclose(in);
    return 0;
}
