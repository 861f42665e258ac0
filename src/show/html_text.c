/* html_text.c: see html_text.h. */
#include "show/html_text.h"

#include <stdarg.h>
#include <string.h>

void html_text(FILE *out, const char *text) {
    for (; *text; text++)
        if (strchr("<>&\"'", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
}

void html_element(FILE *out, const char *name, const char *text) {
    fprintf(out, "<%s>", name);
    html_text(out, text);
    fprintf(out, "</%.*s>", (int)strcspn(name, " "), name);
}

void html_format(FILE *out, const char *name, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    html_element(out, name, text);
}

/* In JSON a < stands only within strings, where it may be written so. */
void html_json(FILE *out, const char *json, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (json[i] == '<')
            fputs("\\u003c", out);
        else
            fputc(json[i], out);
}
