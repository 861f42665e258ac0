/* parse.c: see parse.h. It must not depend on the locale, so it does not use strtod. */
#include "base/parse.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Letters of a name that was mistyped; VRAMGC_SNAPSHOT_ON_OOM has 22. */
enum { NAME_LENGTH = 31 };

/* Reads digits, a point, digits. Returns what follows, or NULL when there is no number. */
static const char *read_number(const char *text, double *out) {
    double value = 0, scale = 1;
    const char *p = text;
    bool digits = false;
    for (; *p >= '0' && *p <= '9'; p++, digits = true)
        value = value * 10 + (*p - '0');
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, digits = true)
            value += (*p - '0') * (scale /= 10);
    *out = value;
    return digits ? p : NULL;
}

struct unit {
    const char *name;
    double factor;
};

static bool parse_unit(const char *text, const struct unit *units, size_t count, uint64_t *out) {
    double value;
    const char *rest = read_number(text, &value);
    if (!rest)
        return false;
    while (*rest == ' ')
        rest++;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(rest, units[i].name) != 0)
            continue;
        value *= units[i].factor;
        if (value >= 18446744073709549568.0)
            return false;
        *out = (uint64_t)(value + 0.5);
        return true;
    }
    return false;
}

bool parse_size(const char *text, uint64_t *out) {
    static const struct unit units[] = {
        {"", 1},         {"b", 1},       {"k", 0x1p10},   {"kb", 0x1p10},  {"kib", 0x1p10},
        {"m", 0x1p20},   {"mb", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},   {"gb", 0x1p30},
        {"gib", 0x1p30}, {"t", 0x1p40},  {"tb", 0x1p40},  {"tib", 0x1p40},
    };
    return parse_unit(text, units, ARRAY_LENGTH(units), out);
}

uint64_t parse_for_test(const char *variable, bool (*parse)(const char *, uint64_t *),
                        uint64_t standard) {
    const char *typed = getenv(variable);
    if (typed)
        parse(typed, &standard);
    return standard;
}

/* A name may stand in another line, too: a program chooses its own. */
uint64_t parse_kib_line(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0) {
            uint64_t kib = strtoull(line + length, NULL, 10);
            return kib < UINT64_MAX / KIBIBYTE ? kib * KIBIBYTE : 0;
        }
    }
    return 0;
}

/* A part is kept in thousandths of a percent. */
#define AMOUNT_IS_PART ((uint64_t)1 << 63)

bool parse_amount(const char *text, uint64_t *out) {
    double percent;
    bool part = strchr(text, '%');
    if (!part)
        return parse_size(text, out) && *out < AMOUNT_IS_PART;
    if (!parse_percent(text, &percent) || percent > 100)
        return false;
    *out = percent > 0 ? AMOUNT_IS_PART | (uint64_t)(percent * 1000 + 0.5) : 0;
    return true;
}

double amount_percent(uint64_t amount) {
    return amount & AMOUNT_IS_PART ? (double)(amount & ~AMOUNT_IS_PART) / 1000 : 0;
}

uint64_t amount_bytes(uint64_t amount, uint64_t total_bytes) {
    double percent = amount_percent(amount);
    return percent > 0 ? (uint64_t)((double)total_bytes * percent / 100) : amount;
}

/* One is a matter of microseconds, another of days: no unit is guessed. */
bool parse_duration(const char *text, uint64_t *out) {
    static const struct unit units[] = {
        {"", 1e9},  {"ns", 1},   {"us", 1e3},   {"ms", 1e6},
        {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9},
    };
    bool bare = text[strspn(text, "0123456789. ")] == 0 && strpbrk(text, "123456789");
    return !bare && parse_unit(text, units, ARRAY_LENGTH(units), out);
}

bool parse_count(const char *text, uint64_t *out) {
    uint64_t value = 0;
    if (!*text)
        return false;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || value > (UINT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    *out = value;
    return true;
}

bool parse_percent(const char *text, double *out) {
    double value;
    const char *rest = read_number(text, &value);
    if (!rest)
        return false;
    while (*rest == ' ')
        rest++;
    if (*rest == '%')
        rest++;
    if (*rest)
        return false;
    *out = value;
    return true;
}

bool parse_bool(const char *text, bool *out) {
    int choice = parse_choice(text, "0|1|false|true|no|yes|off|on");
    if (choice < 0)
        return false;
    *out = choice & 1;
    return true;
}

int parse_choice(const char *text, const char *words) {
    size_t length = strlen(text);
    int index = 0;
    for (const char *word = words; *word; index++) {
        size_t end = strcspn(word, "|");
        if (end == length && strncasecmp(word, text, length) == 0)
            return index;
        word += end;
        if (*word == '|')
            word++;
    }
    return -1;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

static bool same_letter(char a, char b) {
    return lower(a) == lower(b);
}

unsigned parse_distance(const char *a, const char *b) {
    uint64_t to[NAME_LENGTH + 1][NAME_LENGTH + 1]; /* from so much of a to so much of b */
    size_t m = strnlen(a, NAME_LENGTH), n = strnlen(b, NAME_LENGTH);
    for (unsigned i = 0; i <= m; i++)
        for (unsigned j = 0; j <= n; j++) {
            to[i][j] = i + j;
            if (i == 0 || j == 0)
                continue;
            to[i][j] = min_u64(min_u64(to[i - 1][j], to[i][j - 1]) + 1,
                               to[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                to[i][j] = min_u64(to[i][j], to[i - 2][j - 2] + 1);
        }
    return (unsigned)to[m][n];
}

const char *nearest_word(const char *name, size_t count, const char *(*get)(size_t index)) {
    const char *nearest = NULL;
    unsigned best = 4; /* more than 3 changes, or more than half of the word, are no slip */
    for (size_t i = 0; i < count; i++) {
        unsigned distance = parse_distance(name, get(i));
        if (distance < best && distance * 2 <= min_u64(strlen(name), strlen(get(i)))) {
            best = distance;
            nearest = get(i);
        }
    }
    return nearest;
}
