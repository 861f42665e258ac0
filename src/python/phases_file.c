/* phases_file.c: see phases_file.h. It must not be read where a thread of the program waits. */
#include "python/phases_file.h"

#include "base/file.h"
#include "base/log.h"
#include "python/phases.h"

/* 256 bytes for each row that there may be (MOST_ROWS of phases.c), which has 216 at most. */
enum { MOST_BYTES = 16 << 10 };

void phases_file_read(const char *path) {
    char text[MOST_BYTES];
    size_t first = 0;
    size_t length = file_read_start(path, text, sizeof text);
    size_t bad = phases_add(text, &first);
    if (length == 0)
        LOG(LOG_WARN,
            "VRAMGC_FUNCTIONS: %s cannot be read, or is empty; functions are named all "
            "the same",
            path);
    else if (bad == 1)
        LOG(LOG_WARN,
            "VRAMGC_FUNCTIONS: line %zu of %s is not PHASE MODULE FUNCTION, or is one too "
            "many; the others hold",
            first, path);
    else if (bad > 1)
        LOG(LOG_WARN,
            "VRAMGC_FUNCTIONS: %zu lines of %s, the first of them %zu, are not PHASE MODULE "
            "FUNCTION, or too many; the others hold",
            bad, path, first);
}
