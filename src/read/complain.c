/* complain.c: see complain.h. It must write nothing to standard output. */
#include "read/complain.h"

#include "base/clean_text.h"

#include <stdarg.h>
#include <stdio.h>

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
