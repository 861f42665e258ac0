/* finding.c: see finding.h. */
#include "cli/finding.h"
#include "base/clean_text.h"
#include "show/summary_lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    size_t wrong_count;
    FILE *held; /* NULL: lines do not wait */
    char *text; /* what they are, once it is closed */
    size_t bytes;
} self;

void finding(enum mark mark, const char *about, const char *format, ...) {
    static const char *const words[] = {"ok", "note", "WRONG"};
    char line[1024], heading[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    clean_text(line, sizeof line);
    snprintf(heading, sizeof heading, "%-6s %-11s ", words[mark], about);
    FILE *out = self.held ? self.held : stdout;
    if (isatty(STDOUT_FILENO))
        summary_wrapped_at(out, (int)strlen(heading), heading, line);
    else /* for grep, a line each */
        fprintf(out, "%s%s\n", heading, line);
    fflush(stdout);
    self.wrong_count += mark == MARK_WRONG;
}

void finding_hold(void) {
    self.held = open_memstream(&self.text, &self.bytes);
}

void finding_release(void) {
    if (!self.held)
        return;
    fclose(self.held);
    self.held = NULL;
    fputs(self.text ? self.text : "", stdout);
    free(self.text);
    self.text = NULL;
}

size_t finding_wrong_count(void) {
    return self.wrong_count;
}
