/* summary_lines.h: lines of a page of text that survives being pasted into an issue, and what it
 * may do where a person looks at it: use the width that there is, and colour. In a pipe or a file
 * it is 80 columns of plain text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct terminal {
    int columns;
    bool colours; /* NO_COLOR is not set, and the terminal is no dumb one */
};

struct terminal terminal_of(FILE *out);

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
