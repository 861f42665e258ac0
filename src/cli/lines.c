/* lines.c: see lines.h. */
#include "cli/lines.h"

#include <stdarg.h>

size_t bytes_of_columns(const char *text, size_t columns) {
    size_t i = 0;
    while (text[i]) {
        bool starts = ((unsigned char)text[i] & 0xc0) != 0x80;
        if (starts && columns-- == 0)
            break;
        i++;
    }
    return i;
}

void summary_line(FILE *out, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(out, "%.*s\n", (int)bytes_of_columns(line, SUMMARY_WIDTH), line);
}
