/* lines.h: lines of the page of text, which is 80 columns wide. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { SUMMARY_WIDTH = 80 };

/* Length of the first `columns` characters of a UTF-8 text, in bytes. */
size_t bytes_of_columns(const char *text, size_t columns);

/* A line of at most SUMMARY_WIDTH columns; what is longer is cut. */
void summary_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
