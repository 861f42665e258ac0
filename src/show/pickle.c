/* pickle.c: see pickle.h. */
#include "show/pickle.h"

#include <assert.h>
#include <string.h>

enum {
    OP_PROTO = 0x80,
    OP_LONG1 = 0x8a,
    OP_MARK = '(',
    OP_DICT = '}',
    OP_LIST = ']',
    OP_SETITEMS = 'u',
    OP_APPENDS = 'e',
    OP_TEXT = 'X',
    OP_STOP = '.',
    BATCH = 1000
};

static void write_little(FILE *out, uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(number >> 8 * i & 0xff), out);
}

struct pickle pickle_begin(FILE *out) {
    fputc(OP_PROTO, out);
    fputc(2, out);
    return (struct pickle){.out = out};
}

void pickle_end(struct pickle *pickle) {
    fputc(OP_STOP, pickle->out);
}

void pickle_dict(struct pickle *pickle) {
    fputc(OP_DICT, pickle->out);
    fputc(OP_MARK, pickle->out);
}

void pickle_dict_end(struct pickle *pickle) {
    fputc(OP_SETITEMS, pickle->out);
}

void pickle_list(struct pickle *pickle) {
    assert(pickle->depth + 1 < PICKLE_DEPTH);
    pickle->counts[++pickle->depth] = 0;
    fputc(OP_LIST, pickle->out);
    fputc(OP_MARK, pickle->out);
}

void pickle_list_end(struct pickle *pickle) {
    pickle->depth--;
    fputc(OP_APPENDS, pickle->out);
}

void pickle_item(struct pickle *pickle) {
    if (pickle->counts[pickle->depth]++ < BATCH)
        return;
    pickle->counts[pickle->depth] = 1;
    fputc(OP_APPENDS, pickle->out);
    fputc(OP_MARK, pickle->out);
}

void pickle_text(struct pickle *pickle, const char *text) {
    size_t length = strlen(text);
    fputc(OP_TEXT, pickle->out);
    write_little(pickle->out, length, 4);
    fwrite(text, 1, length, pickle->out);
}

/* Two's complement of as few bytes as there must be. */
void pickle_number(struct pickle *pickle, uint64_t number) {
    size_t bytes = 1;
    while (bytes < 9 && number >> (8 * bytes - 1))
        bytes++;
    fputc(OP_LONG1, pickle->out);
    fputc((int)bytes, pickle->out);
    write_little(pickle->out, number, bytes < 8 ? bytes : 8);
    if (bytes == 9)
        fputc(0, pickle->out);
}

void pickle_set_text(struct pickle *pickle, const char *key, const char *text) {
    pickle_text(pickle, key);
    pickle_text(pickle, text);
}

void pickle_set_number(struct pickle *pickle, const char *key, uint64_t number) {
    pickle_text(pickle, key);
    pickle_number(pickle, number);
}
