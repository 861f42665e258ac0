/* pickle.h: writes numbers, texts, lists and dictionaries as Python's pickle (protocol 2), with
 * none but the opcodes that PyTorch's memory_viz reads. A dictionary's members are key, value, key,
 * ... Nothing here knows what is written. */
#ifndef PICKLE_H
#define PICKLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PICKLE_DEPTH = 16 };

struct pickle {
    FILE *out;
    size_t depth;
    size_t counts[PICKLE_DEPTH]; /* items of the open lists since the last batch */
};

struct pickle pickle_begin(FILE *out);
void pickle_end(struct pickle *pickle);

void pickle_dict(struct pickle *pickle);
void pickle_dict_end(struct pickle *pickle);
void pickle_list(struct pickle *pickle);
void pickle_list_end(struct pickle *pickle);

/* Call before each item of a list: readers take only so many at once. */
void pickle_item(struct pickle *pickle);

void pickle_text(struct pickle *pickle, const char *text); /* UTF-8 */
void pickle_number(struct pickle *pickle, uint64_t number);

/* Key and value. */
void pickle_set_text(struct pickle *pickle, const char *key, const char *text);
void pickle_set_number(struct pickle *pickle, const char *key, uint64_t number);

#endif
