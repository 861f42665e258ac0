/* units.h: figures as people read them, in small texts that are returned by value so that several
 * fit into one printf. Nothing here knows what a figure means. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unit {
    UNIT_BYTES,
    UNIT_COUNT,
    UNIT_NS,
    UNIT_MILLI,
    UNIT_ID /* a number that counts nothing: shown digit by digit */
};

/* "bytes", "count", "nanoseconds", "thousandths", "number". */
const char *unit_name(enum unit unit);

struct figure {
    char text[40];
};

/* As printf() has it. */
struct figure show_words(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct figure show_bytes(uint64_t bytes);  /* 5.7 GiB */
struct figure show_beside(uint64_t bytes); /* what is left of much: under 1 MiB is so little */
struct figure show_count(uint64_t count);  /* 12,480 */
struct figure show_time(uint64_t ns);      /* 38 ms */
struct figure show_clock(uint64_t ns);     /* 1:03:55 since the start; 3:55.870 below an hour */
struct figure show_date(uint64_t unix_ns); /* 2026-11-28 13:41, where the reader is */
struct figure show_real(bool known, double value, unsigned decimals);
struct figure show_known(bool known, uint64_t bytes); /* 1.25, or - */
struct figure show_unit(enum unit unit, uint64_t value);

/* Parts of a sum: what is shown of them, added up and rounded as the sum is, is what is shown of
 * the sum. Where rounding has it otherwise the part that was rounded most gives way, by a step of
 * its last digit; never `kept`, which stands elsewhere too. */
void show_parts(const uint64_t *bytes, struct figure *figures, size_t count, size_t kept);

/* A sum of figures that stand beside it. */
struct figure show_sum(uint64_t a, uint64_t b);

/* A sum or quotient of figures as a number of their unit again; what is too large, or no number,
 * becomes the nearest there is. */
uint64_t to_u64(double value);

/* "SIGTERM", or "signal 77". */
struct figure show_signal(int number);
