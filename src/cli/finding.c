/* finding.c: see finding.h. */
#include "cli/finding.h"
#include "base/clean_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static size_t wrong_count;
static FILE *held; /* NULL: lines do not wait */
static char *held_text;
static size_t held_bytes;

void finding(enum mark mark, const char *about, const char *format, ...) {
    static const char *const words[] = {"ok", "note", "WRONG"};
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    clean_text(line, sizeof line);
    fprintf(held ? held : stdout, "%-6s %-11s %s\n", words[mark], about, line);
    fflush(stdout);
    wrong_count += mark == MARK_WRONG;
}

void finding_hold(void) {
    held = open_memstream(&held_text, &held_bytes);
}

void finding_release(void) {
    if (!held)
        return;
    fclose(held);
    held = NULL;
    fputs(held_text ? held_text : "", stdout);
    free(held_text);
    held_text = NULL;
}

size_t finding_wrong_count(void) {
    return wrong_count;
}
