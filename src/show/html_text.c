/* html_text.c: see html_text.h. */
#include "show/html_text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

static void write_letters(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (strchr("<>&\"'", text[i]))
            fprintf(out, "&#%d;", text[i]);
        else
            fputc(text[i], out);
}

void html_text(FILE *out, const char *text) {
    write_letters(out, text, strlen(text));
}

static bool is_option(const char *word) {
    word += strspn(word, "(`'\"");
    return word[0] == '-' && (word[1] == '-' || islower((unsigned char)word[1]));
}

/* A browser would end a line behind the hyphens of --spill. */
static void write_words(FILE *out, const char *text) {
    static const char between[] = " \t\n";
    while (*text) {
        size_t length = strcspn(text, between);
        size_t with_space = length + strspn(text + length, between);
        bool option = is_option(text);
        fputs(option ? "<span class=\"opt\">" : "", out);
        write_letters(out, text, length);
        fputs(option ? "</span>" : "", out);
        write_letters(out, text + length, with_space - length);
        text += with_space;
    }
}

void html_element(FILE *out, const char *name, const char *text) {
    fprintf(out, "<%s>", name);
    write_words(out, text);
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
