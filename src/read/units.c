/* units.c: see units.h. */
#include "read/units.h"
#include "base/base.h"
#include "base/text.h"

#include <signal.h>
#include <stdio.h>

const char *unit_name(enum unit unit) {
    static const char *const names[] = {
        [UNIT_BYTES] = "bytes",       [UNIT_COUNT] = "count", [UNIT_NS] = "nanoseconds",
        [UNIT_MILLI] = "thousandths", [UNIT_ID] = "number",
    };
    return names[unit];
}

uint64_t to_u64(double value) {
    if (!(value > 0))
        return 0;
    return value < 18446744073709551615.0 ? (uint64_t)value : UINT64_MAX;
}

struct figure show_bytes(uint64_t bytes) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    text_add_bytes(&text, bytes);
    return figure;
}

struct figure show_count(uint64_t count) {
    char digits[24];
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text_add(&text, ",");
        text_add_n(&text, &digits[i], 1);
    }
    return figure;
}

struct figure show_time(uint64_t ns) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    text_add_duration(&text, ns);
    return figure;
}

struct figure show_clock(uint64_t ns) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    unsigned long long ms = ns / MILLISECOND_NS;
    if (ms >= 3600000)
        text_format(&text, "%llu:%02llu:%02llu", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60);
    else
        text_format(&text, "%llu:%02llu.%03llu", ms / 60000, ms / 1000 % 60, ms % 1000);
    return figure;
}

struct figure show_real(bool known, double value, unsigned decimals) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    if (known)
        text_add_decimal(&text, value, decimals);
    else
        text_add(&text, "-");
    return figure;
}

static struct figure show_id(uint64_t number) {
    struct figure figure;
    snprintf(figure.text, sizeof figure.text, "%llu", (unsigned long long)number);
    return figure;
}

struct figure show_unit(enum unit unit, uint64_t value) {
    switch (unit) {
    case UNIT_BYTES:
        return show_bytes(value);
    case UNIT_NS:
        return show_time(value);
    case UNIT_MILLI:
        return show_real(true, (double)value / 1000, 3);
    case UNIT_ID:
        return show_id(value);
    case UNIT_COUNT:
        break;
    }
    return show_count(value);
}

struct figure show_signal(int number) {
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},
                 {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"},
                 {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"},
                 {SIGSEGV, "SIGSEGV"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},
                 {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},
                 {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"}};
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (names[i].number == number) {
            text_add(&text, names[i].name);
            return figure;
        }
    text_format(&text, "signal %d", number);
    return figure;
}

struct figure show_known(bool known, uint64_t bytes) {
    return known ? show_bytes(bytes) : show_real(false, 0, 0);
}
