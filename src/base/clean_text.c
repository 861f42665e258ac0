/* clean_text.c: see clean_text.h. It must not read the locale, nor further than the texts that it
 * is given. */
#include "base/clean_text.h"
#include "base/base.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

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

/* ---- secrets ---- */

#define MASK "***"

/* A part of an argument, without a zero byte at its end. */
struct part {
    const char *text;
    size_t length;
};

static bool ends_with(struct part part, const char *word) {
    size_t length = strlen(word);
    return part.length >= length &&
           strncasecmp(part.text + part.length - length, word, length) == 0;
}

static bool has_word(struct part part, const char *word) {
    for (size_t length = strlen(word); part.length >= length; part.length--)
        if (ends_with(part, word))
            return true;
    return false;
}

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* --max-tokens and --tokenizer are none: all but passwords count only at the end of one of the
 * words of which a name is made. */
static bool is_secret(struct part name) {
    static const char *const ends[] = {"token",      "secret",      "auth",       "credentials",
                                       "credential", "apikey",      "api-key",    "api_key",
                                       "access-key", "access_key",  "secret-key", "secret_key",
                                       "ngrok",      "private-key", "private_key"};
    static const char *const anywhere[] = {"password", "passwd", "passphrase"};
    for (size_t i = 0; i < ARRAY_LENGTH(anywhere); i++)
        if (has_word(name, anywhere[i]))
            return true;
    for (size_t end = 1; end <= name.length; end++) {
        bool whole = end == name.length || !isalnum((unsigned char)name.text[end]);
        for (size_t i = 0; whole && i < ARRAY_LENGTH(ends); i++)
            if (ends_with((struct part){name.text, end}, ends[i]))
                return true;
    }
    return false;
}

/* How many bytes of the part are a name. */
static size_t name_length(struct part part) {
    size_t length = 0;
    while (length < part.length && is_name(part.text[length]))
        length++;
    return length;
}

static bool has_value(struct part part, size_t name) {
    return name > 0 && name < part.length && part.text[name] == '=' &&
           is_secret((struct part){part.text, name});
}

/* The login of an URL, from behind its "://" to its @. */
static size_t login_length(struct part part) {
    size_t login = 0;
    for (size_t i = 0; i < part.length && !strchr("/?#'\"", part.text[i]); i++)
        if (part.text[i] == '@')
            login = i;
    return login;
}

static bool begins(struct part part, const char *word) {
    return part.length >= strlen(word) && memcmp(part.text, word, strlen(word)) == 0;
}

static struct part part_behind(struct part part, size_t length) {
    return (struct part){part.text + length, part.length - length};
}

/* Up to the next part of an URL. */
static size_t query_length(struct part part) {
    size_t length = 0;
    while (length < part.length && !strchr("&#'\"", part.text[length]))
        length++;
    return length;
}

/* Logins and queries of URLs. */
static void add_plain(struct text *text, struct part part) {
    while (part.length > 0) {
        size_t taken = 1, masked = 0;
        if (begins(part, "://")) {
            taken = 3;
            masked = login_length(part_behind(part, taken));
        } else if (*part.text == '?' || *part.text == '&') {
            size_t name = name_length(part_behind(part, 1));
            taken = has_value(part_behind(part, 1), name) ? name + 2 : 1;
            masked = taken > 1 ? query_length(part_behind(part, taken)) : 0;
        }
        text_add_n(text, part.text, taken);
        text_add(text, masked ? MASK : "");
        part = part_behind(part, taken + masked);
    }
}

/* One word: NAME=VALUE, an option, or anything else. */
static void mask_word(struct secrets *secrets, struct text *text, struct part word) {
    size_t name = name_length(word);
    bool expected = secrets->expected && !begins(word, "--");
    secrets->expected = false;
    if (expected) {
        text_add(text, MASK);
    } else if (has_value(word, name)) {
        text_add_n(text, word.text, name + 1);
        text_add(text, MASK);
    } else {
        add_plain(text, word);
        secrets->expected = *word.text == '-' && name == word.length && is_secret(word);
    }
}

/* White space and what stands in quotes belong together as a shell has it. */
static size_t word_length(const char *text) {
    size_t length = 0;
    char quote = 0;
    for (; text[length] && (quote || !isspace((unsigned char)text[length])); length++)
        if (quote ? text[length] == quote : text[length] == '\'' || text[length] == '"')
            quote = quote ? 0 : text[length];
    return length;
}

void secrets_add_command(struct text *text, const char *argument) {
    struct secrets inner = {false};
    while (*argument) {
        size_t length = word_length(argument);
        if (length > 0)
            mask_word(&inner, text, (struct part){argument, length});
        else
            text_add_n(text, argument, length = 1);
        argument += length;
    }
}

void secrets_add(struct secrets *secrets, struct text *text, const char *argument) {
    struct part whole = {argument, strlen(argument)};
    bool spaces = argument[strcspn(argument, " \t\n")] != 0;
    if (!whole.length)
        return;
    if (!spaces || secrets->expected || has_value(whole, name_length(whole)))
        mask_word(secrets, text, whole);
    else
        secrets_add_command(text, argument);
}

void secrets_add_all(struct text *text, const char *arguments, size_t length) {
    struct secrets secrets = {false};
    for (size_t at = 0; at < length; at += strnlen(arguments + at, length - at) + 1) {
        text_add(text, at > 0 ? " " : "");
        secrets_add(&secrets, text, arguments + at);
    }
}
