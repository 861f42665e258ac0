/* finding.c: see finding.h. */
#include "cli/finding.h"
#include "base/clean_text.h"
#include "show/summary_lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t wrong_count;
static FILE *held; /* NULL: lines do not wait */
static char *held_text;
static size_t held_bytes;

void finding(enum mark mark, const char *about, const char *format, ...) {
    static const char *const words[] = {"ok", "note", "WRONG"};
    char line[1024], heading[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    clean_text(line, sizeof line);
    snprintf(heading, sizeof heading, "%-6s %-11s ", words[mark], about);
    if (isatty(STDOUT_FILENO))
        summary_wrapped_at(held ? held : stdout, (int)strlen(heading), heading, line);
    else /* for grep, a line each */
        fprintf(held ? held : stdout, "%s%s\n", heading, line);
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
