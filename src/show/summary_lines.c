/* summary_lines.c: see summary_lines.h. It must not cut a character of several bytes, and ask
 * nothing of the terminal that waits for an answer. */
#include "show/summary_lines.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Narrower, figures would be cut; 80 is a terminal's usual width; lines longer than
 * 110 are hard to read. */
enum { NARROWEST = 40, USUAL = 80, WIDEST = 110 };

static int columns_of(int descriptor) {
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return USUAL;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col > WIDEST ? WIDEST : size.ws_col;
}

struct terminal terminal_of(FILE *out) {
    const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");
    int descriptor = fileno(out);
    if (descriptor < 0 || !isatty(descriptor))
        return (struct terminal){USUAL, false};
    bool plain = (none && *none) || !kind || !*kind || strcmp(kind, "dumb") == 0;
    return (struct terminal){columns_of(descriptor), !plain};
}

static bool starts_character(char byte) {
    return ((unsigned char)byte & 0xc0) != 0x80;
}

size_t bytes_of_columns(const char *text, size_t columns) {
    size_t i = 0;
    while (text[i]) {
        if (starts_character(text[i]) && columns-- == 0)
            break;
        i++;
    }
    return i;
}

size_t columns_of_bytes(const char *text, size_t length) {
    size_t columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += starts_character(text[i]);
    return columns;
}

void summary_line(FILE *out, const char *format, ...) {
    char line[1024];
    FORMAT_ARGUMENTS(line, format);
    size_t before = strspn(line, "\n"); /* an empty line, which takes no columns */
    size_t width = bytes_of_columns(line + before, SUMMARY_WIDTH);
    fprintf(out, "%.*s\n", (int)(before + width), line);
}

void shell_word(FILE *out, const char *text) {
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    fputc('\'', out);
}

/* At spaces, and between the members of a list that has none, but not within a number. */
static bool may_break(const char *text, size_t at) {
    bool word = (unsigned char)(text[at] - 'a') <= 'z' - 'a';
    return text[at] == ' ' || (text[at - 1] == ',' && word);
}

void summary_wrapped_at(FILE *out, int indent, const char *heading, const char *text) {
    struct terminal terminal = terminal_of(out);
    while (*text) {
        size_t length = bytes_of_columns(text, (size_t)(terminal.columns - indent));
        if (text[length])
            for (size_t i = length; i > 0; i--)
                if (may_break(text, i)) {
                    length = i;
                    break;
                }
        bool bold = terminal.colours && *heading >= 'A' && *heading <= 'Z';
        fprintf(out, "%s%-*s%s%.*s\n", bold ? "\033[1m" : "", indent, heading,
                bold ? "\033[0m" : "", (int)length, text);
        text += length;
        text += strspn(text, " ");
        heading = "";
    }
}

void summary_wrapped(FILE *out, const char *heading, const char *text) {
    summary_wrapped_at(out, 9, heading, text);
}
