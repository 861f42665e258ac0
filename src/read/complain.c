/* complain.c: see complain.h. It must write nothing to standard output. */
#include "read/complain.h"

#include "base/clean_text.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* The complaints of this turn, and of the one before: lines, each with its end before it, too.
 * What finds no room is said again. */
static struct { char now[16384], before[16384]; } self;

static void say_line(const char *line) {
    fflush(stdout);
    fprintf(stderr, "vramgc: %s\n", line);
}

void complain(const char *format, ...) {
    char line[1024], whole[1024 + 3];
    FORMAT_ARGUMENTS(line, format);
    clean_text(line, sizeof line); /* names of files, arguments and variables are in it */
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(self.before, whole))
        say_line(line);
    size_t length = strlen(self.now);
    if (length + strlen(whole) < sizeof self.now)
        strcpy(self.now + length, whole);
}

void complain_anew(const char *format, ...) {
    char line[1024];
    FORMAT_ARGUMENTS(line, format);
    clean_text(line, sizeof line);
    if (*self.before && !*self.now)
        say_line(line);
    memcpy(self.before, self.now, sizeof self.before);
    *self.now = 0;
}
