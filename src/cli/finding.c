/* finding.c: see finding.h. */
#include "cli/finding.h"
#include "base/clean_text.h"

#include <stdarg.h>
#include <stdio.h>

static size_t wrong_count;

void finding(enum mark mark, const char *about, const char *format, ...) {
    static const char *const words[] = {"ok", "note", "WRONG"};
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    clean_text(line, sizeof line);
    printf("%-6s %-11s %s\n", words[mark], about, line);
    fflush(stdout);
    wrong_count += mark == MARK_WRONG;
}

size_t finding_wrong_count(void) {
    return wrong_count;
}
