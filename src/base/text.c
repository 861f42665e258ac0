/* text.c: see text.h. It must not call malloc, stdio streams, or anything that reads the locale
 * for numbers. */
#include "base/text.h"
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <errno.h>

struct text text_in(char *data, size_t capacity) {
    data[0] = 0;
    return (struct text){data, capacity, 0};
}

void text_add_n(struct text *text, const char *string, size_t length) {
    size_t room = text->capacity - 1 - text->length;
    if (length > room)
        length = room;
    memcpy(text->data + text->length, string, length);
    text->length += length;
    text->data[text->length] = 0;
}

void text_add(struct text *text, const char *string) {
    text_add_n(text, string, strlen(string));
}

void text_format(struct text *text, const char *format, ...) {
    va_list arguments;
    size_t room = text->capacity - text->length;
    va_start(arguments, format);
    int wanted = vsnprintf(text->data + text->length, room, format, arguments);
    va_end(arguments);
    if (wanted > 0)
        text->length += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

void text_add_decimal(struct text *text, double value, unsigned decimals) {
    static const uint64_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    uint64_t scale = power[decimals < ARRAY_LENGTH(power) ? decimals : ARRAY_LENGTH(power) - 1];
    if (value != value || value > 1e12 || value < -1e12) {
        text_add(text, "?");
        return;
    }
    if (value < 0) {
        text_add(text, "-");
        value = -value;
    }
    uint64_t scaled = (uint64_t)(value * (double)scale + 0.5);
    text_format(text, "%lu", scaled / scale);
    if (scale > 1)
        text_format(text, ".%0*lu", (int)decimals, scaled % scale);
}

/* Three digits or four of a unit: its number, and the step of its last digit. */
static size_t unit_of(uint64_t bytes, double *unit_bytes, double *step_bytes) {
    enum { UNITS = 6 };
    size_t i = 0;
    for (*unit_bytes = 1; (double)bytes >= 1023.95 * *unit_bytes && i + 1 < UNITS; i++)
        *unit_bytes *= 1024;
    *step_bytes = i == 0 || (double)bytes >= 99.95 * *unit_bytes ? *unit_bytes : *unit_bytes / 10;
    return i;
}

void text_add_bytes(struct text *text, uint64_t bytes) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double unit_bytes, step_bytes;
    size_t i = unit_of(bytes, &unit_bytes, &step_bytes);
    text_add_decimal(text, (double)bytes / unit_bytes, step_bytes < unit_bytes);
    text_format(text, " %s", unit[i]);
}

double text_bytes_shown(uint64_t bytes, double *step_bytes) {
    double unit_bytes;
    unit_of(bytes, &unit_bytes, step_bytes);
    return (double)(uint64_t)((double)bytes / *step_bytes + 0.5) * *step_bytes;
}

void text_add_duration(struct text *text, uint64_t ns) {
    double value = (double)ns;
    const char *unit = "ns";
    if (ns >= 60 * SECOND_NS) {
        bool hours = ns >= 3600 * SECOND_NS;
        uint64_t units = ns / SECOND_NS / (hours ? 60 : 1);
        text_format(text, hours ? "%lu h %02lu m" : "%lu m %02lu s", units / 60, units % 60);
        return;
    }
    if (ns >= SECOND_NS) {
        value /= 1e9;
        unit = "s";
    } else if (ns >= 100000) {
        value /= 1e6;
        unit = "ms";
    } else if (ns >= 1000) {
        value /= 1e3;
        unit = "us";
    }
    text_add_decimal(text, value, ns < 1000 || value >= 99.95 ? 0 : 1);
    text_format(text, " %s", unit);
}

/* A name from outside as a part of a path: it neither climbs nor descends. */
static void add_name(struct text *text, const char *name) {
    if (!name[strspn(name, ".")]) {
        text_add(text, "unnamed");
        return;
    }
    for (; *name; name++)
        text_add_n(text, *name == '/' ? "_" : name, 1);
}

static void add_host_name(struct text *text) {
    struct utsname name;
    add_name(text, uname(&name) == 0 ? name.nodename : "host");
}

static void add_pattern_letter(struct text *text, char letter) {
    switch (letter) {
    case 'p':
        text_format(text, "%ld", (long)getpid());
        break;
    case 'e':
        add_name(text, program_invocation_short_name);
        break;
    case 'h':
        add_host_name(text);
        break;
    case 't':
        text_format(text, "%lld", (long long)time(NULL));
        break;
    case '%':
        text_add(text, "%");
        break;
    default:
        text_format(text, "%%%c", letter);
    }
}

void text_add_pattern(struct text *text, const char *pattern) {
    for (const char *p = pattern; *p; p++) {
        if (p[0] == '%' && p[1])
            add_pattern_letter(text, *++p);
        else
            text_add_n(text, p, 1);
    }
}

uint64_t text_hash(const char *text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

const char *text_after_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void text_copy(char *to, size_t capacity, const char *from) {
    size_t length = strnlen(from, capacity - 1);
    memcpy(to, from, length);
    memset(to + length, 0, capacity - length);
}
