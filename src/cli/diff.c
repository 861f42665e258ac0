/* diff.c: the command `vramgc diff`: two statistics files side by side, figure by figure. It judges
 * nothing. */
#include "cli/diff.h"
#include "cli/cli.h"
#include "cli/derived.h"
#include "cli/stats_file.h"
#include "cli/summary.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/text.h"

#include <string.h>

enum { FLAG_ALL, FLAG_AS, FLAG_HELP };

const struct flag diff_flags[] = {
    [FLAG_ALL] = {"all", 'a', NULL, "every figure, also those that are equal"},
    [FLAG_AS] = {"as", 0, "A,B", "titles of the two columns; default: the files' names"},
    [FLAG_HELP] = {"help", 'h', NULL, "this text"},
};
const size_t diff_flag_count = ARRAY_LENGTH(diff_flags);

struct sides {
    FILE *out;
    const struct stats_file *a, *b;
    const char *titles;
    bool all;
};

enum { TITLE_COLUMNS = 14 };

static void write_row(FILE *out, const char *label, const char *a, const char *b,
                      const char *change) {
    summary_line(out, "%-34s %14s %14s %14s", label, a, b, change);
}

/* B as a part of A, where that says something. */
static struct figure show_change(double a, double b) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    if (a <= 0 || b < 0) {
        text_add(&text, a == b ? "=" : "");
        return figure;
    }
    double percent = (b - a) / a * 100;
    text_add(&text, percent > 0 ? "+" : "");
    if (percent > 99999)
        text_add(&text, "very much");
    else
        text_add_decimal(&text, percent, percent < 10 && percent > -10 ? 1 : 0);
    text_add(&text, percent > 99999 ? "" : " %");
    if (a == b)
        text_copy(figure.text, sizeof figure.text, "=");
    return figure;
}

static void write_number(const struct sides *sides, const char *label, enum unit unit, uint64_t a,
                         uint64_t b, bool always) {
    if (!sides->all && !always && a == b)
        return;
    write_row(sides->out, label, show_unit(unit, a).text, show_unit(unit, b).text,
              show_change((double)a, (double)b).text);
}

static void write_real(FILE *out, const char *label, struct derived a, struct derived b) {
    write_row(out, label, show_real(a.known, a.value, 2).text, show_real(b.known, b.value, 2).text,
              a.known && b.known ? show_change(a.value, b.value).text : "");
}

/* "held_bytes" as "held": the figures carry their unit. */
static struct text label_of(const char *name, char *label, size_t capacity) {
    static const char *const units[] = {"_bytes", "_ns"};
    size_t length = strlen(name);
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++)
        if (length > strlen(units[i]) && strcmp(name + length - strlen(units[i]), units[i]) == 0)
            length -= strlen(units[i]);
    struct text text = text_in(label, capacity);
    text_add_n(&text, name, length);
    for (char *c = label; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return text;
}

static void write_gauge(const struct sides *sides, const char *name, enum unit unit,
                        struct vramgc_gauge a, struct vramgc_gauge b, bool always) {
    char label[64];
    struct text text = label_of(name, label, sizeof label);
    size_t end = text.length;
    text_add(&text, ", peak");
    write_number(sides, label, unit, a.peak, b.peak, always);
    text.length = end;
    text_add(&text, ", at the end");
    write_number(sides, label, unit, a.current, b.current, always);
}

/* Figures that are shown even when they are equal, because their absence would be asked about. */
static bool is_main(const char *name) {
    static const char *const names[] = {"held_bytes",   "reserved_bytes", "allocated_bytes",
                                        "driver_calls", "reclaims",       "refusals",
                                        "ooms"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Sums whose quotients stand above as "held / live". */
static bool is_shown_as_quotient(const char *name) {
    return strncmp(name, "held_over_live_", 15) == 0 || strcmp(name, "held_sum_kib") == 0 ||
           strcmp(name, "live_sum_kib") == 0;
}

static void write_total(const struct sides *sides, const char *name, enum unit unit, uint64_t a,
                        uint64_t b) {
    char label[64];
    label_of(name, label, sizeof label);
    if (sides->all || !is_shown_as_quotient(name))
        write_number(sides, label, unit, a, b, is_main(name));
}

static void write_stats(const struct sides *sides, const struct vramgc_device_stats *a,
                        const struct vramgc_device_stats *b) {
#define DEVICE_GAUGE(name, unit, help)                                                             \
    write_gauge(sides, #name, UNIT_##unit, a->name, b->name, is_main(#name));
#define DEVICE_TOTAL(name, unit, help) write_total(sides, #name, UNIT_##unit, a->name, b->name);
#define PROCESS_TOTAL(name, unit, help)
#include "stats.def"
#undef DEVICE_GAUGE
#undef DEVICE_TOTAL
#undef PROCESS_TOTAL
}

static void write_device(const struct sides *sides, size_t index) {
    const struct vramgc_device *a = &sides->a->file->devices[index];
    const struct vramgc_device *b = &sides->b->file->devices[index];
    if (!a->present && !b->present)
        return;
    fputc('\n', sides->out);
    summary_line(sides->out, "GPU %zu  %s", index, a->present ? a->name : b->name);
    write_number(sides, "card", UNIT_BYTES, a->total_bytes, b->total_bytes, true);
    write_real(sides->out, "held / live, on average",
               derived_figure(DERIVED_held_over_live_weighted, a),
               derived_figure(DERIVED_held_over_live_weighted, b));
    write_real(sides->out, "held / live, mean", derived_figure(DERIVED_held_over_live_mean, a),
               derived_figure(DERIVED_held_over_live_mean, b));
    write_real(sides->out, "held / live, at the peaks",
               derived_figure(DERIVED_held_over_live_peak, a),
               derived_figure(DERIVED_held_over_live_peak, b));
    write_real(sides->out, "utilisation, peak, %",
               derived_figure(DERIVED_utilisation_peak_percent, a),
               derived_figure(DERIVED_utilisation_peak_percent, b));
    write_stats(sides, &a->stats, &b->stats);
}

/* The end of a path is what tells it from another. */
static const char *short_name(const char *path) {
    size_t length = strlen(path);
    return length > TITLE_COLUMNS ? path + length - TITLE_COLUMNS : path;
}

static void write_titles(const struct sides *sides) {
    char titles[4 * TITLE_COLUMNS], a[TITLE_COLUMNS + 1];
    struct text text = TEXT_IN(a);
    text_copy(titles, sizeof titles, sides->titles ? sides->titles : "");
    clean_text(titles, sizeof titles);
    const char *comma = strchr(titles, ',');
    if (comma) {
        text_add_n(&text, titles, (size_t)(comma - titles));
        write_row(sides->out, "", a, comma + 1, "change");
    } else {
        summary_line(sides->out, "A  %s", sides->a->path);
        summary_line(sides->out, "B  %s", sides->b->path);
        write_row(sides->out, "", short_name(sides->a->path), short_name(sides->b->path), "change");
    }
}

void diff_write(FILE *out, const struct stats_file *a, const struct stats_file *b,
                const char *titles, bool all) {
    const struct sides sides = {.out = out, .a = a, .b = b, .titles = titles, .all = all};
    write_titles(&sides);
    write_number(&sides, "time", UNIT_NS, a->elapsed_ns, b->elapsed_ns, true);
    write_row(out, "mode", a->file->mode, b->file->mode, "");
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++)
        write_device(&sides, i);
}

static struct stats_file *load(const char *path) {
    char error[256];
    struct stats_file *record = stats_file_load(path, error, sizeof error);
    if (!record)
        complain("%s: %s", path, error);
    return record;
}

static int diff(const char *path_a, const char *path_b, const char *titles, bool all) {
    struct stats_file *a = load(path_a), *b = load(path_b);
    int status = a && b ? STATUS_FINE : STATUS_BAD_INPUT;
    if (a && b)
        diff_write(stdout, a, b, titles, all);
    if (fflush(stdout) != 0) {
        complain("standard output cannot be written");
        status = STATUS_BAD_INPUT;
    }
    stats_file_free(a);
    stats_file_free(b);
    return status;
}

int diff_main(int argc, char **argv) {
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = diff_flags,
                        .flag_count = diff_flag_count,
                        .command = "diff",
                        .next = 1};
    const char *titles = NULL;
    bool all = false;
    for (int index; (index = args_next(&args)) != ARGS_END;) {
        if (index == ARGS_BAD)
            return STATUS_USAGE;
        if (index == FLAG_HELP)
            return STATUS_HELP;
        if (index == FLAG_AS)
            titles = args.value;
        all = all || index == FLAG_ALL;
    }
    if (args.operand_count == 2)
        return diff(argv[0], argv[1], titles, all);
    complain("diff needs two statistics files: vramgc diff A B");
    return STATUS_USAGE;
}
