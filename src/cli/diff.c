/* diff.c: the command `vramgc diff`: two statistics files side by side: which held less, what
 * became of each, then the figures that are asked for most. It must not compare what is not
 * comparable without saying so: a run that did less, or another card. */
#include "cli/diff.h"
#include "cli/cli.h"
#include "cli/diff_which.h"
#include "read/derived.h"
#include "read/stats_file.h"
#include "read/records.h"
#include "show/device_table.h"
#include "show/summary.h"
#include "show/summary_lines.h"
#include "judge/tally.h"
#include "judge/verdict.h"
#include "judge/who.h"
#include "base/base.h"
#include "base/clean_text.h"
#include "base/options.h"
#include "base/parse.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

static void write_columns(FILE *out, const char *label, const char *a, const char *b,
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
    if (fabs(percent) < 0.05)
        text_copy(figure.text, sizeof figure.text, "=");
    return figure;
}

/* change is "" for what differs from run to run, and for how vramgc works: as a percentage it would
 * be read. */
static void write_values(const struct sides *sides, const char *label, enum unit unit, uint64_t a,
                         uint64_t b, const char *change) {
    const struct figure unknown = show_known(false, 0);
    write_columns(sides->out, label, (sides->in_a ? show_unit(unit, a) : unknown).text,
                  (sides->in_b ? show_unit(unit, b) : unknown).text, change);
}

static void write_change(const struct sides *sides, const char *label, enum unit unit, uint64_t a,
                         uint64_t b) {
    write_values(sides, label, unit, a, b,
                 sides->in_a && sides->in_b ? show_change((double)a, (double)b).text : "");
}

/* By its name, which `vramgc help` explains, where there is anything to compare. */
static void write_raw_figure(const struct sides *sides, const struct stat_info *stat,
                             struct vramgc_gauge a, struct vramgc_gauge b) {
    char label[64];
    bool gauge = stat->group == STAT_DEVICE_GAUGE;
    snprintf(label, sizeof label, "%s, peak", stat->name);
    if (gauge && (a.peak || b.peak))
        write_change(sides, label, stat->unit, a.peak, b.peak);
    snprintf(label, sizeof label, "%s%s", stat->name, gauge ? ", at the end" : "");
    if (a.current || b.current)
        write_change(sides, label, stat->unit, a.current, b.current);
}

static void write_ooms(const struct sides *sides) {
    uint64_t a = diff_ooms(sides->a), b = diff_ooms(sides->b);
    write_columns(sides->out, "out of memory, times", show_ooms(sides->a->file, a).text,
                  show_ooms(sides->b->file, b).text, show_change((double)a, (double)b).text);
}

static void write_ratio(const struct sides *sides, const char *label, enum derived_id id,
                        const struct vramgc_device *a, const struct vramgc_device *b) {
    struct derived x = derived_figure(id, a), y = derived_figure(id, b);
    write_columns(sides->out, label, show_real(x.known, x.value, 2).text,
                  show_real(y.known, y.value, 2).text,
                  x.known && y.known ? show_change(x.value, y.value).text : "");
}

static void write_all_figures(const struct sides *sides, const struct vramgc_device *a,
                              const struct vramgc_device *b) {
    write_ratio(sides, "held / live, mean of block events", DERIVED_held_over_live_mean, a, b);
    write_ratio(sides, "the same, weighted by what is live", DERIVED_held_over_live_weighted, a, b);
    write_ratio(sides, "held / live, at the peaks", DERIVED_held_over_live_peak, a, b);
    write_ratio(sides, "of the card used at most, %", DERIVED_utilisation_peak_percent, a, b);
    summary_line(sides->out, "all figures that are not 0 in both; `vramgc help NAME` explains one");
    for (size_t i = 0; i < stat_count; i++) {
        const struct stat_info *stat = &stat_table[i];
        if (stat->group != STAT_PROCESS_TOTAL && stat->group != STAT_DEVICE_SUM)
            write_raw_figure(sides, stat, stat_value(stat, &a->stats), stat_value(stat, &b->stats));
    }
}

static void write_last(const struct sides *sides, const struct vramgc_device *a,
                       const struct vramgc_device *b) {
    struct last_moment x = last_moment_of(a, sides->a->state == PROCESS_RUNNING),
                       y = last_moment_of(b, sides->b->state == PROCESS_RUNNING);
    const char *between = strcmp(x.name, y.name) != 0 ? " / " : "";
    TEXT_OVER(text, label, 48);
    text_format(&text, "held, %s%s%s", x.name, between, *between ? y.name : "");
    write_change(sides, label, UNIT_BYTES, x.stats->held_bytes.current,
                 y.stats->held_bytes.current);
    memcpy(label, "live", 4); /* a model is there, or none */
    write_change(sides, label, UNIT_BYTES, x.stats->live_bytes.current,
                 y.stats->live_bytes.current);
}

/* Beside time, mode and what ran out of memory. */
static void write_main(const struct sides *sides, const struct vramgc_device *a,
                       const struct vramgc_device *b) {
    const struct vramgc_device_stats *x = &a->stats, *y = &b->stats;
    write_change(sides, "card", UNIT_BYTES, a->total_bytes, b->total_bytes);
    write_change(sides, "requests refused, times", UNIT_COUNT, x->refusals, y->refusals);
    write_change(sides, "held, peak", UNIT_BYTES, x->held_bytes.peak, y->held_bytes.peak);
    write_change(sides, "live, peak", UNIT_BYTES, x->live_bytes.peak, y->live_bytes.peak);
    write_last(sides, a, b);
    write_ratio(sides, "held / live, over time", DERIVED_held_over_live_time, a, b);
    write_change(sides, "idle memory returned, times", UNIT_COUNT, x->reclaims, y->reclaims);
    if (sides->all)
        write_values(sides, "driver calls, vramgc's too", UNIT_COUNT, all_driver_calls(x),
                     all_driver_calls(y), "");
}

/* Live bytes of the site's function at the peak. */
static uint64_t peak_of(const struct stats_file *record, size_t index,
                        const struct vramgc_site *site) {
    struct who_row rows[WHO_ROWS];
    size_t count = who_rows(record->file, &record->file->devices[index], rows);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += rows[i].site && who_is_same(rows[i].site, site) ? rows[i].peak_bytes : 0;
    return bytes;
}

/* The name of a function, each longer than the one before. */
enum name_form { ONLY_FUNCTION, WITH_FILE, WITH_FOLDER, WITH_PHASE, NAME_FORMS };

static struct who_name name_in(const struct vramgc_site *site, enum name_form form) {
    struct who_name name;
    struct text text = TEXT_IN(name.text);
    bool module = strcmp(site->function, "<module>") == 0;
    if (form == WITH_FILE || (form == ONLY_FUNCTION && module))
        return who_short_name(site);
    text_add(&text, form == ONLY_FUNCTION ? site->function : who_name(site).text);
    if (form == WITH_PHASE && *site->phase)
        text_format(&text, ", %s", site->phase);
    return name;
}

/* True where another function of that side reads the same. */
static bool is_doubled(const struct stats_file *record, size_t index,
                       const struct vramgc_site *site, enum name_form form) {
    struct who_row rows[WHO_ROWS];
    struct who_name name = name_in(site, form);
    size_t count = who_rows(record->file, &record->file->devices[index], rows);
    for (size_t i = 0; i < count; i++)
        if (rows[i].site && rows[i].peak_bytes && !who_is_same(rows[i].site, site) &&
            strcmp(name_in(rows[i].site, form).text, name.text) == 0)
            return true;
    return false;
}

/* A name longer than its column has a line of its own. */
static void write_function(const struct sides *sides, size_t index,
                           const struct vramgc_site *site) {
    enum { LABEL_COLUMNS = 34 };
    enum name_form form = ONLY_FUNCTION;
    while (form + 1 < NAME_FORMS &&
           (is_doubled(sides->a, index, site, form) || is_doubled(sides->b, index, site, form)))
        form++;
    TEXT_OVER(text, label, sizeof(struct who_name) + 2);
    text_format(&text, "  %s", name_in(site, form).text);
    bool is_long = columns_of_bytes(label, text.length) > LABEL_COLUMNS;
    if (is_long)
        summary_line(sides->out, "%s", label);
    write_change(sides, is_long ? "" : label, UNIT_BYTES, peak_of(sides->a, index, site),
                 peak_of(sides->b, index, site));
}

/* One that is in several rows, as of two classes, was in the first. */
static bool was_before(const struct who_row *rows, size_t row) {
    size_t i = 0;
    while (i < row && !who_is_same(rows[i].site, rows[row].site))
        i++;
    return i < row;
}

/* The functions of one side; of B those that A has not. How many there were. */
static size_t write_functions(const struct sides *sides, size_t index, bool of_b, size_t most) {
    const struct stats_file *record = of_b ? sides->b : sides->a;
    struct who_row rows[WHO_ROWS];
    size_t count = who_rows(record->file, &record->file->devices[index], rows), written = 0;
    for (size_t i = 0; i < count && written < most; i++) {
        const struct vramgc_site *site = rows[i].site;
        if (!site || !rows[i].peak_bytes || was_before(rows, i) ||
            (of_b && peak_of(sides->a, index, site)))
            continue;
        write_function(sides, index, site);
        written++;
    }
    return written;
}

static void write_functions_at_peak(const struct sides *sides, size_t index) {
    const size_t most = sides->all ? WHO_ROWS : 5, least_of_b = 2;
    if (sides->a->file->devices[index].owners_at_peak.count +
            sides->b->file->devices[index].owners_at_peak.count ==
        0)
        return;
    summary_line(sides->out, "live at the peak, by Python function");
    size_t written = write_functions(sides, index, false, most);
    write_functions(sides, index, true, max_u64(most - written, least_of_b));
}

static void write_card_names(const struct sides *sides, size_t index, const struct vramgc_device *a,
                             const struct vramgc_device *b) {
    char label[24];
    int columns = snprintf(label, sizeof label, "GPU %zu  ", index);
    fputc('\n', sides->out);
    if (sides->in_a && sides->in_b && strcmp(a->name, b->name) == 0) {
        summary_line(sides->out, "%s%s", label, a->name);
        return;
    }
    summary_line(sides->out, "%sA: %s", label, sides->in_a ? a->name : "-");
    summary_line(sides->out, "%*sB: %s", columns, "", sides->in_b ? b->name : "-");
}

static void write_both_cards(const struct sides *sides, size_t index) {
    const struct vramgc_device *a = &sides->a->file->devices[index];
    const struct vramgc_device *b = &sides->b->file->devices[index];
    if (!a->present && !b->present)
        return;
    struct sides of = *sides;
    of.in_a = a->present, of.in_b = b->present;
    write_card_names(&of, index, a, b);
    write_main(&of, a, b);
    write_functions_at_peak(&of, index);
    if (of.all)
        write_all_figures(&of, a, b);
}

/* ---- what was set ---- */

/* Where a file lies says nothing of memory; the mode that "auto" became has a row of its own. */
static bool is_told_of(const struct option_info *info) {
    static const char *const not [] = {"mode", "out", "keep", "log", "log_file"};
    for (size_t i = 0; i < ARRAY_LENGTH(not ); i++)
        if (strcmp(info->name, not [i]) == 0)
            return false;
    return true;
}

/* As it would be typed. */
static struct figure show_setting(const struct option_info *info, const char *value) {
    struct figure figure;
    struct text text = TEXT_IN(figure.text);
    uint64_t bytes;
    if (info->type == SIZE && parse_size(value, &bytes))
        return show_bytes(bytes);
    text_add_n(&text, value, bytes_of_columns(value, DIFF_COLUMN));
    return figure;
}

static void write_changed_settings(const struct sides *sides) {
    for (size_t i = 0; i < option_count; i++) {
        const struct option_info *info = &option_table[i];
        const char *a = stats_file_setting(sides->a, info->name);
        const char *b = stats_file_setting(sides->b, info->name);
        if (a && b && strcmp(a, b) != 0 && is_told_of(info))
            write_columns(sides->out, info->variable, show_setting(info, a).text,
                          show_setting(info, b).text, "");
    }
}

/* ---- what became of the two ---- */

static void write_outcome(FILE *out, const char *name, const struct stats_file *side) {
    struct stats_file *record = (struct stats_file *)side; /* which verdict_of() only reads */
    struct verdict verdict = verdict_of(&record, 1);
    TEXT_OVER(text, sentences, sizeof verdict.what + sizeof verdict.cause + 1);
    text_format(&text, "%s%s%s", verdict.what, *verdict.cause ? " " : "", verdict.cause);
    summary_line(out, "%s  %s", name, side->path);
    int indent = fprintf(out, "   %s, %s  ", show_date(stats_file_began_unix_ns(side)).text,
                         show_time(stats_file_ran_ns(side)).text);
    const char *command = side->file->command_line;
    size_t length = summary_shorten(&command, SUMMARY_WIDTH - (size_t)indent);
    fprintf(out, "%.*s%s\n", (int)length, command, command[length] ? ".." : "");
    summary_wrapped_at(out, 3, "", sentences);
}

void diff_write(FILE *out, const struct stats_file *a, const struct stats_file *b, bool all) {
    struct sides sides = {.out = out, .a = a, .b = b, .in_a = true, .in_b = true, .all = all};
    struct stats_file *const both[] = {(struct stats_file *)a,
                                       (struct stats_file *)b}; /* only read */
    diff_which(&sides);
    write_outcome(out, "A", a);
    write_outcome(out, "B", b);
    fputc('\n', out);
    write_columns(out, "", "A", "B", "change");
    write_changed_settings(&sides);
    write_values(&sides, "time since CUDA began", UNIT_NS, a->elapsed_ns, b->elapsed_ns, "");
    write_columns(out, "mode", a->file->mode, b->file->mode, "");
    write_ooms(&sides);
    for (size_t i = 0; i < VRAMGC_MAX_DEVICES; i++)
        write_both_cards(&sides, i);
    fputs("\nHeld is what the driver gave, live what tensors use; held / live is 1 at best.\n",
          out);
    if (!all)
        summary_command(out, "All figures: vramgc diff --all", both, 2);
    fputs("Times are of one run each: repeat before you judge them.\n", out);
}

static bool all_figures;

/* The newest of those that are left. */
static struct records take_run(struct kept *left) {
    size_t count = kept_newest_run(left);
    struct records records = records_load_kept(left, count);
    left->files += count;
    left->count -= count;
    return records;
}

/* The process that its report is about. */
static const struct stats_file *told_of(const struct records *run) {
    return run->list[verdict_record(run->list, run->count)];
}

static bool is_same_program(const struct records *a, const struct records *b) {
    char one[PROGRAM_BYTES], other[PROGRAM_BYTES];
    struct text of_a = TEXT_IN(one), of_b = TEXT_IN(other);
    program_name(told_of(a)->file, &of_a);
    program_name(told_of(b)->file, &of_b);
    return strcmp(one, other) == 0;
}

/* The latest of the same program; of none, the latest. */
static struct records take_run_like(const struct records *run, struct kept *left) {
    struct kept all = *left;
    while (run->count > 0 && left->count > 0) {
        struct records found = take_run(left);
        if (found.count > 0 && is_same_program(&found, run))
            return found;
        records_free(&found);
    }
    return take_run(&all);
}

static int diff_latest(void) {
    struct kept kept = kept_find(), left = kept;
    struct records b = take_run(&left), a = take_run_like(&b, &left);
    bool both = a.count > 0 && b.count > 0;
    if (both) {
        fprintf(stdout, "%s; `vramgc list` shows all.\n\n",
                is_same_program(&a, &b)
                    ? "The latest two runs of the program, the older one as A"
                    : "The latest two runs, the older one as A, are of different "
                      "programs");
        diff_write(stdout, told_of(&a), told_of(&b), all_figures);
    } else if (a.complete && b.complete) {
        complain("diff needs two runs, and fewer are kept; or name two: vramgc diff A B");
    }
    records_free(&a);
    records_free(&b);
    kept_free(&kept);
    return both ? STATUS_FINE : STATUS_BAD_INPUT;
}

static int diff_main(struct args *args) {
    if (args->operand_count == 0)
        return diff_latest();
    if (args->operand_count != 2) {
        complain("diff needs two statistics files, or none: vramgc diff A B");
        return STATUS_USAGE;
    }
    struct records records = records_load(args->argv, 2);
    bool complete = records.complete;
    if (complete)
        diff_write(stdout, records.list[0], records.list[1], all_figures);
    records_free(&records);
    return complete ? STATUS_FINE : STATUS_BAD_INPUT;
}

static const struct flag flags[] = {
    {"all", 'a', NULL, "every figure; by default those that matter", .on = &all_figures},
};

const struct command diff_command = {
    "diff",
    GROUP_LOOK,
    "[A B]",
    "two runs side by side",
    "Each is a file, or the pid of a run that is kept; without them, the latest run and the "
    "latest before it of the same program, else the latest two. First which held less, or whether "
    "one did less work, and what became of each; then the figures that matter "
    "most, and which Python functions had live memory at the peak. Devices are paired by index. "
    "Exit status as for report.\n",
    FLAGS(flags),
    .main = diff_main,
};
