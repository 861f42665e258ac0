/* units.c: see units.h. */
#include "read/units.h"
#include "base/base.h"
#include "base/text.h"

#include <stdio.h>
#include <time.h>

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

struct figure show_words(const char *format, ...) {
    struct figure figure;
    FORMAT_ARGUMENTS(figure.text, format);
    return figure;
}

struct figure show_bytes(uint64_t bytes) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    text_add_bytes(&text, bytes);
    return figure;
}

static double shown(uint64_t bytes) {
    double step_bytes;
    return text_bytes_shown(bytes, &step_bytes);
}

/* The part that was most rounded down (error > 0), or up, of those with that step; count: none. */
static size_t most_rounded(const uint64_t *bytes, const double *shows, size_t count, size_t kept,
                           double step_bytes, double error) {
    size_t found = count;
    double most = 0, step;
    for (size_t i = 0; i < count; i++) {
        double lost = ((double)bytes[i] - shows[i]) * (error > 0 ? 1 : -1);
        text_bytes_shown(bytes[i], &step);
        if (i != kept && step == step_bytes && lost > most) {
            most = lost;
            found = i;
        }
    }
    return found;
}

void show_parts(const uint64_t *bytes, struct figure *figures, size_t count, size_t kept) {
    enum { MOST = 16 };
    double shows[MOST], step_bytes, error;
    uint64_t sum = 0;
    size_t i;
    count = min_u64(count, MOST);
    for (i = 0; i < count; i++)
        sum += bytes[i];
    error = text_bytes_shown(sum, &step_bytes);
    for (i = 0; i < count; i++)
        error -= shows[i] = shown(bytes[i]);
    const double enough = step_bytes / 2 + 1; /* a byte for what double rounds itself */
    while ((error > enough || error < -enough) &&
           (i = most_rounded(bytes, shows, count, kept, step_bytes, error)) < count) {
        double step = error > 0 ? step_bytes : -step_bytes;
        shows[i] += step;
        error -= step;
    }
    for (i = 0; i < count; i++)
        figures[i] = show_bytes(to_u64(shows[i] + 0.5));
}

struct figure show_sum(uint64_t a, uint64_t b) {
    return show_bytes(to_u64(shown(a) + shown(b) + 0.5));
}

struct figure show_count(uint64_t count) {
    char digits[24];
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    int length = snprintf(digits, sizeof digits, "%lu", count);
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
    unsigned long long ms = ns / MILLISECOND_NS;
    if (ms >= 3600000)
        return show_words("%llu:%02llu:%02llu", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60);
    return show_words("%llu:%02llu.%03llu", ms / 60000, ms / 1000 % 60, ms % 1000);
}

struct figure show_date(uint64_t unix_ns) {
    struct figure figure = {""};
    time_t seconds = (time_t)(unix_ns / SECOND_NS);
    struct tm tm;
    if (localtime_r(&seconds, &tm))
        strftime(figure.text, sizeof figure.text, "%Y-%m-%d %H:%M", &tm);
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

struct figure show_unit(enum unit unit, uint64_t value) {
    switch (unit) {
    case UNIT_BYTES:
        return show_bytes(value);
    case UNIT_NS:
        return show_time(value);
    case UNIT_MILLI:
        return show_real(true, (double)value / 1000, 3);
    case UNIT_ID:
        return show_words("%lu", value);
    case UNIT_COUNT:
        break;
    }
    return show_count(value);
}

struct figure show_signal(int number) {
    const char *name = sigabbrev_np(number);
    return name ? show_words("SIG%s", name) : show_words("signal %d", number);
}

struct figure show_beside(uint64_t bytes) {
    return bytes && bytes < MEBIBYTE ? (struct figure){"under 1 MiB"} : show_bytes(bytes);
}

struct figure show_known(bool known, uint64_t bytes) {
    return known ? show_bytes(bytes) : show_real(false, 0, 0);
}
