/* complain.c: see complain.h. It must write nothing to standard output. */
#include "read/complain.h"

#include "base/clean_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The complaints of this turn, and of the one before: lines, each with its end before it, too.
 * What finds no room is said again. */
static struct { char now[16384], before[16384]; } self;

/* Names of files, arguments and variables are in it. */
static void make_line(char *line, size_t capacity, const char *format, va_list arguments) {
    vsnprintf(line, capacity, format, arguments);
    clean_text(line, capacity);
}

static void say_line(const char *line) {
    fflush(stdout);
    fprintf(stderr, "vramgc: %s\n", line);
}

void complain(const char *format, ...) {
    char line[1024], whole[1024 + 3];
    va_list arguments;
    va_start(arguments, format);
    make_line(line, sizeof line, format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(self.before, whole))
        say_line(line);
    size_t length = strlen(self.now);
    if (length + strlen(whole) < sizeof self.now)
        strcpy(self.now + length, whole);
}

void complain_anew(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    make_line(line, sizeof line, format, arguments);
    va_end(arguments);
    if (*self.before && !*self.now)
        say_line(line);
    memcpy(self.before, self.now, sizeof self.before);
    *self.now = 0;
}
