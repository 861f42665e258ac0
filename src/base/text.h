/* text.h: building texts in a buffer of fixed size, without malloc and independent of the locale.
 * What does not fit is cut; the text always ends with a zero byte. No pointer may be NULL. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct text {
    char *data;
    size_t capacity; /* with the final zero byte; at least 1 */
    size_t length;
};

/* A text over an array variable; the second declares that, too. */
#define TEXT_IN(array) text_in((array), sizeof(array))
#define TEXT_OVER(name, array, bytes)                                                              \
    char array[bytes];                                                                             \
    struct text name = TEXT_IN(array)

/* Writes into the array what its function's arguments from `format` on make. */
#define FORMAT_ARGUMENTS(array, format)                                                            \
    do {                                                                                           \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        vsnprintf(array, sizeof(array), format, arguments);                                        \
        va_end(arguments);                                                                         \
    } while (0)

struct text text_in(char *data, size_t capacity);
void text_add(struct text *text, const char *string);
void text_add_n(struct text *text, const char *string, size_t length);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "5.7 GiB", "512 MiB", "640 B": three significant figures at the most, binary units. */
void text_add_bytes(struct text *text, uint64_t bytes);

/* The number that text_add_bytes writes, and the step of its last digit. */
double text_bytes_shown(uint64_t bytes, double *step_bytes);

/* "246 ms", "38.0 ms", "0.4 ms", "12.0 us", "7.1 s", "1 m 05 s", "1 h 02 m". */
void text_add_duration(struct text *text, uint64_t ns);

/* value with `decimals` (0..6) digits after a point, whatever the locale says. */
void text_add_decimal(struct text *text, double value, unsigned decimals);

/* A file name pattern: %p process, %e program, %h host, %t start time in seconds, %% percent;
 * any other letter is kept as it stands. */
void text_add_pattern(struct text *text, const char *pattern);

/* FNV-1a: the same for the same text, in all processes. */
uint64_t text_hash(const char *text);

/* A path without its folder. */
const char *text_after_folder(const char *path);

/* Copies a string into an array of fixed size and fills the rest with zero bytes. */
void text_copy(char *to, size_t capacity, const char *from);
