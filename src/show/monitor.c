/* monitor.c: see monitor.h. It must name no metric that `vramgc export --prometheus` does not
 * write, which a test looks at. */
#include "show/monitor.h"
#include "read/emit.h"
#include "show/export_formats.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- rules ---- */

#define OF_PROCESS "on (instance, program, folder, slot)"

/* for: how long it must have been so. An out-of-memory is told by its time: a count is new with the
 * program that ends by it, and a new count is no increase. */
static const struct {
    const char *name, *lasts, *summary, *expression;
} rules[] = {
    {"VramgcOutOfMemory", "0m", "{{ $labels.program }} ran out of GPU memory",
     "time() - max by (instance, program, folder) (vramgc_latest_oom_time_seconds) < 300"},
    {"VramgcCardFull", "5m", "GPU {{ $labels.bus_id }} is {{ $value | humanizePercentage }} full",
     "max by (instance, bus_id) (vramgc_used_bytes / ignoring (name) vramgc_device_memory_bytes) "
     "> 0.95"},
    {"VramgcIdleMemory", "15m",
     "{{ $labels.program }} keeps {{ $value | humanize1024 }}B of GPU memory that it does not use",
     "vramgc_held_bytes - vramgc_other_bytes - vramgc_live_bytes > 2^30"},
    /* Twice the least that a report calls growth (judge/cause.c), in the same process. */
    {"VramgcMemoryGrows", "0m",
     "{{ $labels.program }} keeps {{ $value | humanize1024 }}B more than an hour ago",
     "(min_over_time(vramgc_live_bytes[1h]) - min_over_time(vramgc_live_bytes[1h] offset 1h) "
     "> 128 * 2^20) and " OF_PROCESS " (changes(vramgc_process_start_time_seconds[2h]) == 0 and "
     "vramgc_process_start_time_seconds offset 2h)"},
    {"VramgcInternalError", "0m", "vramgc has a fault in {{ $labels.program }}: please report it",
     "increase(vramgc_internal_errors_total[1h]) > 0"},
};

void monitor_rules(FILE *out) {
    fputs("# Rules for Prometheus, of `vramgc help prometheus-rules`.\n"
          "groups:\n  - name: vramgc\n    rules:\n",
          out);
    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++)
        fprintf(out,
                "      - alert: %s\n        expr: %s\n        for: %s\n"
                "        labels: {severity: warning}\n"
                "        annotations: {summary: '%s'}\n",
                rules[i].name, rules[i].expression, rules[i].lasts, rules[i].summary);
}

/* ---- the dashboard ---- */

/* Grafana's grid has 24 columns: three panels in a row, as high as a quarter of a screen. */
enum { COLUMNS = 24, PANEL_WIDTH = 8, PANEL_HEIGHT = 7 };

static struct {
    struct emit emit;
    uint64_t number, x, y;
} page;

static void number(const char *name, uint64_t value) {
    emit_number(&page.emit, name, UNIT_COUNT, "", value);
}

static void text(const char *name, const char *value) {
    emit_label(&page.emit, name, "", value);
}

static void open(const char *name) {
    emit_open(&page.emit, name, "");
}

static void close(void) {
    emit_close(&page.emit);
}

static void place(uint64_t width, uint64_t height) {
    if (page.x + width > COLUMNS) {
        page.x = 0;
        page.y += PANEL_HEIGHT;
    }
    open("gridPos");
    number("x", page.x);
    number("y", page.y);
    number("w", width);
    number("h", height);
    close();
    page.x += width;
}

static void add_row(const char *title) {
    page.y += page.x > 0 ? PANEL_HEIGHT : 0;
    page.x = 0;
    open(NULL);
    number("id", ++page.number);
    text("type", "row");
    text("title", title);
    emit_bool(&page.emit, "collapsed", "", false);
    place(COLUMNS, 1);
    close();
    page.x = 0;
    page.y++;
}

static void add_source(void) {
    open("datasource");
    text("type", "prometheus");
    text("uid", "${datasource}");
    close();
}

static void begin_panel(const char *title, const char *help, const char *unit, uint64_t width,
                        bool stacked) {
    open(NULL);
    number("id", ++page.number);
    text("type", "timeseries");
    text("title", title);
    text("description", help);
    add_source();
    place(width, PANEL_HEIGHT);
    open("fieldConfig");
    open("defaults");
    text("unit", unit);
    number("min", 0);
    open("custom");
    number("fillOpacity", stacked ? 40 : 5);
    open("stacking");
    text("mode", stacked ? "normal" : "none");
    close();
    close();
    close();
    emit_list(&page.emit, "overrides", "", 0);
    close();
    close();
}

/* All of one panel's queries lie between emit_list and emit_close. */
static void add_query(const char *expression, const char *legend, const char *id) {
    open(NULL);
    add_source();
    text("expr", expression);
    text("legendFormat", legend);
    text("refId", id);
    close();
}

#define CHOSEN "{instance=~\"$instance\",program=~\"$program\"}"

/* The parts of a card; of what belongs to nobody that we know, what one program says is enough. */
static void add_card(void) {
    static const char *const parts[][2] = {
        {"sum by (instance, bus_id) (vramgc_live_bytes" CHOSEN ")", "live"},
        {"sum by (instance, bus_id) (vramgc_held_bytes" CHOSEN " - vramgc_other_bytes" CHOSEN
         " - vramgc_live_bytes" CHOSEN ")",
         "idle"},
        {"sum by (instance, bus_id) (vramgc_other_bytes" CHOSEN ")", "other code"},
        {"max by (instance, bus_id) (vramgc_used_bytes" CHOSEN
         ") - sum by (instance, bus_id) (vramgc_held_bytes" CHOSEN ")",
         "others and driver"},
        {"max by (instance, bus_id) (vramgc_device_memory_bytes" CHOSEN
         ") - max by (instance, bus_id) (vramgc_used_bytes" CHOSEN ")",
         "free"}};
    begin_panel("Who has the card", "the parts of each card add up to its memory", "bytes", COLUMNS,
                true);
    emit_list(&page.emit, "targets", "", ARRAY_LENGTH(parts));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        char legend[64], id[2] = {(char)('A' + i), 0};
        snprintf(legend, sizeof legend, "{{instance}} {{bus_id}} %s", parts[i][1]);
        add_query(parts[i][0], legend, id);
    }
    close();
    close();
}

/* "reclaim_ns" is told in seconds a second. */
static const char *unit_of(const struct stat_info *stat) {
    bool total = stat->group != STAT_DEVICE_GAUGE;
    if (stat->unit == UNIT_BYTES)
        return total ? "Bps" : "bytes";
    return stat->unit == UNIT_NS ? "s" : total ? "cps" : "short";
}

static void add_figure(const struct stat_info *stat) {
    char title[64], *name = NULL, expression[320];
    size_t bytes;
    FILE *out = open_memstream(&name, &bytes);
    if (!out)
        return;
    prometheus_name(out, stat);
    fclose(out);
    text_copy(title, sizeof title, stat->name);
    for (char *c = title; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    bool total = stat->group != STAT_DEVICE_GAUGE;
    snprintf(expression, sizeof expression, "%s%s" CHOSEN "%s", total ? "rate(" : "", name,
             total ? "[$__rate_interval])" : "");
    begin_panel(title, stat->help, unit_of(stat), PANEL_WIDTH, false);
    emit_list(&page.emit, "targets", "", 1);
    add_query(expression,
              stat->group == STAT_PROCESS_TOTAL ? "{{program}} {{slot}}"
                                                : "{{program}} {{slot}} {{bus_id}}",
              "A");
    close();
    close();
    free(name);
}

static void add_figures(const char *title, enum stat_group group) {
    add_row(title);
    for (size_t i = 0; i < stat_count; i++)
        if (stat_table[i].group == group && !stat_is_raw(&stat_table[i]))
            add_figure(&stat_table[i]);
}

static void add_variable(const char *name, const char *type, const char *query) {
    open(NULL);
    text("name", name);
    text("type", type);
    text("query", query);
    if (strcmp(type, "query") == 0) {
        add_source();
        emit_bool(&page.emit, "includeAll", "", true);
        emit_bool(&page.emit, "multi", "", true);
        number("refresh", 2); /* when the shown time changes */
        open("current");
        text("text", "All");
        text("value", "$__all");
        close();
    }
    close();
}

void monitor_dashboard(FILE *out) {
    memset(&page, 0, sizeof page);
    emit_begin(&page.emit, out, EMIT_JSON, "");
    text("title", "vramgc");
    text("uid", "vramgc");
    number("schemaVersion", 36); /* Grafana 8.5 and newer */
    text("refresh", "30s");
    emit_list(&page.emit, "tags", "", 0);
    close();
    open("time");
    text("from", "now-1h");
    text("to", "now");
    close();
    open("templating");
    emit_list(&page.emit, "list", "", 3);
    add_variable("datasource", "datasource", "prometheus");
    add_variable("instance", "query", "label_values(vramgc_process_info, instance)");
    add_variable("program", "query", "label_values(vramgc_process_info, program)");
    close();
    close();
    emit_list(&page.emit, "panels", "", 1);
    add_card();
    add_figures("Memory of each program", STAT_DEVICE_GAUGE);
    add_figures("What happened, on each card", STAT_DEVICE_TOTAL);
    add_figures("What happened, in each program", STAT_PROCESS_TOTAL);
    close();
    emit_end(&page.emit);
}
