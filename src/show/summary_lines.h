/* summary_lines.h: lines of a page of text that survives being pasted into an issue. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum { SUMMARY_WIDTH = 80 };

/* Length of the first `columns` characters of a UTF-8 text, in bytes. */
size_t bytes_of_columns(const char *text, size_t columns);

/* How many characters so many bytes of it are. */
size_t columns_of_bytes(const char *text, size_t length);

/* A line of at most SUMMARY_WIDTH columns; what is longer is cut. */
void summary_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As one word of a shell: in single quotes, where everything is literal but the quote itself. */
void shell_word(FILE *out, const char *text);

/* Sentences behind a heading, each line behind so many columns; as wide as the terminal. */
void summary_wrapped_at(FILE *out, int indent, const char *heading, const char *text);

/* The same where the headings of the report stand. Nothing for an empty text. */
void summary_wrapped(FILE *out, const char *heading, const char *text);
