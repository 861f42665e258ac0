/* parse.h: reading numbers with units from texts that people typed. Each returns false, and leaves
 * *out alone, unless the whole text is a value: trailing rubbish, signs, infinities, and values
 * beyond what uint64_t holds are refused. No pointer may be NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool parse_bool(const char *text, bool *out);         /* 1/0 true/false yes/no on/off */
bool parse_count(const char *text, uint64_t *out);    /* 42 */
bool parse_percent(const char *text, double *out);    /* 80, 80%, 37.5% */
bool parse_size(const char *text, uint64_t *out);     /* bytes; 512MiB, 1.5G, 64k, 100B */
bool parse_duration(const char *text, uint64_t *out); /* nanoseconds; 100ms, 5s, 2m, 1h, 0 */

/* A size, or a part of a card: 2GiB, 80%, in one word; 0: none. And how many bytes that is. */
bool parse_amount(const char *text, uint64_t *out);
uint64_t amount_bytes(uint64_t amount, uint64_t total_bytes);
double amount_percent(uint64_t amount); /* 0: it is a size */

/* The value that a test has put into the environment, else the standard. */
uint64_t parse_for_test(const char *variable, bool (*parse)(const char *, uint64_t *),
                        uint64_t standard);

/* Bytes by the line "NAME  NUMBER kB" of a text such as /proc/meminfo; 0: there is none. */
uint64_t parse_kib_line(const char *text, const char *name);

/* The index of the word in words ("a|b|c") equal to text, ignoring case; -1: none. */
int parse_choice(const char *text, const char *words);

/* Edit distance of two names, ignoring case; counts up to 31 characters of each. */
unsigned parse_distance(const char *a, const char *b);

/* The word of `count` words that `name` was probably meant to be, or NULL. get(i) gives word i. */
const char *nearest_word(const char *name, size_t count, const char *(*get)(size_t index));
