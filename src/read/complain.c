/* complain.c: see complain.h. It must write nothing to standard output. */
#include "read/complain.h"

#include "base/base.h"
#include "base/clean_text.h"
#include "base/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void complain(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    clean_text(line, sizeof line); /* names of files, arguments, variables */
    fflush(stdout);
    fprintf(stderr, "vramgc: %s\n", line);
}

const char *nearest_word(const char *name, size_t count, const char *(*get)(size_t index)) {
    const char *nearest = NULL;
    unsigned best = 4; /* more than 3 changes, or more than half of the word, are no slip */
    for (size_t i = 0; i < count; i++) {
        unsigned distance = parse_distance(name, get(i));
        if (distance < best && distance * 2 <= min_u64(strlen(name), strlen(get(i)))) {
            best = distance;
            nearest = get(i);
        }
    }
    return nearest;
}
