/* clean_text.c: see clean_text.h. It must not read the locale. */
#include "base/clean_text.h"

#include <stdbool.h>
#include <string.h>

/* How many bytes the UTF-8 character at text has, 0 when there is none. Refuses overlong forms,
 * surrogates, and what lies beyond U+10FFFF (Unicode 15, table 3-7). */
static size_t character_bytes(const unsigned char *text, size_t left) {
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length == 0 || first > 0xf4 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
        (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

/* C0, DEL, C1, and the characters that turn the direction of writing: U+061C, U+200E, U+200F,
 * U+2028 to U+202E, U+2066 to U+2069. */
static bool is_control(const unsigned char *text, size_t length) {
    if (length == 1)
        return text[0] < 0x20 || text[0] == 0x7f;
    if (length == 2)
        return (text[0] == 0xc2 && text[1] < 0xa0) || (text[0] == 0xd8 && text[1] == 0x9c);
    return length == 3 && text[0] == 0xe2 &&
           ((text[1] == 0x80 && (text[2] == 0x8e || text[2] == 0x8f)) ||
            (text[1] == 0x80 && text[2] >= 0xa8 && text[2] <= 0xae) ||
            (text[1] == 0x81 && text[2] >= 0xa6 && text[2] <= 0xa9));
}

void clean_text(char *text, size_t capacity) {
    size_t length = strnlen(text, capacity - 1);
    unsigned char *bytes = (unsigned char *)text;
    size_t to = 0;
    for (size_t i = 0; i < length;) {
        size_t here = character_bytes(bytes + i, length - i);
        if (here == 1 && strchr("\t\n\v\f\r", bytes[i])) {
            bytes[to++] = ' ';
        } else if (here == 0 || is_control(bytes + i, here)) {
            bytes[to++] = '?';
        } else {
            memmove(bytes + to, bytes + i, here);
            to += here;
        }
        i += here ? here : 1;
    }
    memset(text + to, 0, capacity - to);
}
