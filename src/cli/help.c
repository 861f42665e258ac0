/* help.c: the command `vramgc help`, written from the tables; nothing that a table knows is
 * repeated here. */
#include "cli/cli.h"
#include "cli/hint.h"
#include "read/derived.h"
#include "read/emit.h"
#include "read/units.h"
#include "show/export_formats.h"
#include "show/report_fields.h"
#include "show/summary_lines.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static void write_flag(const struct flag *flag) {
    char heading[128];
    args_heading(flag, heading, sizeof heading);
    printf("  %s\n", heading);
    summary_wrapped_at(stdout, 8, "", flag->help);
}

/* A line each; behind a tab stands text for the word before it. */
static void write_paragraphs(const char *details) {
    char paragraph[1024];
    while (*details) {
        size_t length = strcspn(details, "\n");
        struct text text = TEXT_IN(paragraph);
        text_add_n(&text, details, length);
        details += length + (details[length] == '\n');
        char *tab = strchr(paragraph, '\t');
        if (!*paragraph)
            puts("");
        if (tab)
            printf("  %.*s\n", (int)(tab - paragraph), paragraph);
        summary_wrapped_at(stdout, tab ? 8 : 0, "", tab ? tab + 1 : paragraph);
    }
}

void help_first(FILE *out) {
    fprintf(out, "vramgc %s: gives idle GPU memory back and tells where it went\n\n",
            VRAMGC_VERSION);
    fputs("  vramgc run ./webui.sh              starts a web UI; at its end, a report\n"
          "  vramgc run --lowvram ./webui.sh    the same; idle memory goes back at once,\n"
          "                                     and no model is moved to RAM\n"
          "  vramgc report                      the newest run: what happened, what to do\n"
          "  vramgc top                         who has the card's memory now\n"
          "  vramgc prove                       a minute: tests your card thoroughly\n"
          "  vramgc doctor                      what is wrong or missing on this machine\n",
          out);
}

/* All on one screen. */
static void write_overview(void) {
    static const char *const headings[GROUP_COUNT] = {[GROUP_START] = "Start",
                                                      [GROUP_LOOK] = "Look",
                                                      [GROUP_RUNNING] = "While a program runs",
                                                      [GROUP_HELP] = "Help"};
    printf("vramgc %s: gives idle GPU memory back and tells where it went\n", VRAMGC_VERSION);
    for (enum command_group group = GROUP_START; group < GROUP_COUNT; group++) {
        puts(headings[group]);
        for (size_t i = 0; commands[i]; i++)
            if (commands[i]->group == group)
                printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
    }
    puts("`vramgc help COMMAND`: its options. `vramgc help settings`: all settings.");
}

static void write_flags(const struct flag *flag, const struct flag *end) {
    for (; flag < end; flag++)
        write_flag(flag);
}

void help_on(const struct command *command) {
    struct flag flags[FLAGS_MAX];
    size_t count = command_flags(command, flags);
    printf("vramgc %s [OPTIONS]%s%s\n\n", command->name, *command->operands ? " " : "",
           command->operands);
    printf("%s.\n", command->summary);
    if (!command->takes_settings) {
        write_paragraphs(command->details);
        puts("\nOptions:");
        write_flags(flags, flags + count);
        return;
    }
    const struct flag *settings = flags + command->flag_count + 1; /* behind --help */
    puts("\nOften set:");
    for (const struct flag *flag = settings; flag < flags + count; flag++)
        if (settings_is_often_set(flag->name))
            write_flag(flag);
    puts("\nOf the command:");
    write_flags(flags, settings);
    TEXT_OVER(text, names, 1024);
    for (const struct flag *flag = settings; flag < flags + count; flag++)
        if (!settings_is_often_set(flag->name))
            text_format(&text, "%s--%s", text.length ? ", " : "", flag->name);
    for (char *at = names; (at = strchr(at, '_'));)
        *at = '-';
    puts("\nSeldom set (`vramgc help NAME` tells of one, `vramgc help settings` of all):");
    summary_wrapped_at(stdout, 2, "", names);
    puts("");
    write_paragraphs(command->details);
}

static void write_setting(const struct option_info *info) {
    printf("  %s=%s   (default %s)\n", info->variable,
           info->type == BOOL ? "0|1" : settings_argument(info),
           *info->standard ? info->standard : "(empty)");
    summary_wrapped_at(stdout, 8, "", info->help);
}

static void write_all_settings(void) {
    write_paragraphs(
        "Settings, as variables of the environment. `vramgc run` has each as an option: "
        "--threshold 70 is VRAMGC_THRESHOLD=70. Sizes and durations have a unit: 512MiB, 1.5G, "
        "100ms, 5s, 2m, 30d. A wrong value or an unknown VRAMGC_ name is told "
        "in one line, and the default is used.\n");
    puts("");
    for (size_t i = 0; i < option_count; i++)
        write_setting(&option_table[i]);
    puts("\nIn plain words, as options only:");
    struct flag flags[FLAGS_MAX];
    size_t count = settings_flags(flags, FLAGS_MAX);
    for (size_t i = option_count; i < count; i++)
        write_flag(&flags[i]);
}

/* A figure of the tables, those that are computed behind the others. */
struct figure_info {
    const char *name, *unit, *help;
};

static size_t figure_count(void) {
    return stat_count + DERIVED_COUNT;
}

static struct figure_info figure_at(size_t i) {
    if (i < stat_count)
        return (struct figure_info){stat_table[i].name, unit_name(stat_table[i].unit),
                                    stat_table[i].help};
    const struct derived_info *derived = &derived_table[i - stat_count];
    return (struct figure_info){derived->name, "derived", derived->help};
}

static void explain_figure(size_t i) {
    struct figure_info figure = figure_at(i);
    printf("  %s (%s)\n", figure.name, figure.unit);
    summary_wrapped_at(stdout, 8, "", figure.help);
}

static void write_group(const char *title, enum stat_group group) {
    puts(title);
    for (size_t i = 0; i < stat_count; i++)
        if (stat_table[i].group == group)
            explain_figure(i);
}

static void write_metrics(void) {
    write_group("For each device, current value and peak:", STAT_DEVICE_GAUGE);
    write_group("\nFor each device, only ever growing:", STAT_DEVICE_TOTAL);
    write_group("\nFor the process, only ever growing:", STAT_PROCESS_TOTAL);
    write_group("\nFor each device, sums that figures below are computed from:", STAT_DEVICE_SUM);
    puts("\nFor each device, computed from the others:");
    for (size_t i = stat_count; i < figure_count(); i++)
        explain_figure(i);
    puts("");
    write_paragraphs(
        "The table of the summary adds up: held + others and driver + free = card. At the peak, "
        "held is the exact peak, others is taken from the point of the timeline with most held, "
        "and free is the rest.\n"
        "JSON holds these figures under the same names; numbers there can need all of 64 bits.\n");
}

static void write_schema(void) {
    if (!report_fields_schema(stdout))
        complain("no memory");
}

static void write_json_help(void) {
    write_paragraphs(
        "`vramgc report --json FILE...` prints one object, `vramgc run --json FILE` writes it. "
        "Sizes are bytes, times nanoseconds, and what is unknown is null. Within one value of "
        "`schema` fields are only added.\n"
        "`vramgc help schema` is its JSON schema; `vramgc help metrics` explains each figure.\n");
}

/* --- for scripts/texts, which makes the manual, the completions and the tables of the documents
 * --- */

static void emit_item(struct emit *emit, const char *heading, const char *help) {
    emit_open_line(emit, NULL, "");
    emit_label(emit, "heading", "", heading);
    emit_label(emit, "help", "", help);
    emit_close(emit);
}

static void emit_flags(struct emit *emit, const char *name, const struct flag *flags,
                       size_t count) {
    emit_list(emit, name, "", count);
    for (size_t i = 0; i < count; i++) {
        char heading[128];
        args_heading(&flags[i], heading, sizeof heading);
        emit_item(emit, heading, flags[i].help);
    }
    emit_close(emit);
}

static void emit_command(struct emit *emit, const struct command *command) {
    struct flag flags[FLAGS_MAX];
    command_flags(command, flags);
    emit_open(emit, NULL, "");
    emit_text(emit, "name", "", command->name);
    emit_label(emit, "operands", "", command->operands);
    emit_text(emit, "summary", "", command->summary);
    emit_bool(emit, "takes_settings", "", command->takes_settings);
    emit_flags(emit, "options", flags, command->flag_count + 1);
    emit_label(emit, "details", "", command->details);
    emit_close(emit);
}

static void emit_setting(struct emit *emit, const struct option_info *info) {
    emit_open(emit, NULL, "");
    emit_text(emit, "variable", "", info->variable);
    emit_text(emit, "value", "", info->type == BOOL ? "0|1" : settings_argument(info));
    emit_label(emit, "standard", "", info->standard);
    emit_bool(emit, "often_set", "", settings_is_often_set(info->name));
    emit_text(emit, "help", "", info->help);
    emit_close(emit);
}

static void write_tables(void) {
    struct emit emit;
    struct flag flags[FLAGS_MAX];
    emit_begin(&emit, stdout, EMIT_JSON, "");
    emit_text(&emit, "version", "", VRAMGC_VERSION);
    emit_list(&emit, "commands", "", 1);
    for (size_t i = 0; commands[i]; i++)
        emit_command(&emit, commands[i]);
    emit_close(&emit);
    emit_list(&emit, "settings", "", option_count);
    for (size_t i = 0; i < option_count; i++)
        emit_setting(&emit, &option_table[i]);
    emit_close(&emit);
    emit_flags(&emit, "setting_options", flags, settings_flags(flags, FLAGS_MAX));
    emit_list(&emit, "figures", "", 1);
    for (size_t i = 0; i < figure_count(); i++) {
        struct figure_info figure = figure_at(i);
        char heading[96];
        snprintf(heading, sizeof heading, "%s (%s)", figure.name, figure.unit);
        emit_item(&emit, heading, figure.help);
    }
    emit_close(&emit);
    emit_end(&emit);
}

/* For --on and VRAMGC_ON. */
static void write_alerts(void) {
    help_on(command_find("watch"));
}

static const struct {
    const char *name;
    void (*write)(void);
    const char *text; /* where it is all there is to write */
} topics[] = {{"settings", write_all_settings, NULL},
              {"metrics", write_metrics, NULL},
              {"json", write_json_help, NULL},
              {"schema", write_schema, NULL},
              {"tables", write_tables, NULL},
              {"prometheus-rules", NULL, prometheus_rules},
              {"grafana-dashboard", NULL, grafana_dashboard},
              {"alerts", write_alerts, NULL},
              {"oom", write_alerts, NULL},
              {"growth", write_alerts, NULL}};

/* --- one thing by its name --- */

/* All names that there is help on, one after the other; NULL behind the last. */
static const char *help_name(size_t index) {
    if (index < ARRAY_LENGTH(topics))
        return topics[index].name;
    index -= ARRAY_LENGTH(topics);
    for (size_t i = 0; commands[i]; i++, index--)
        if (index == 0)
            return commands[i]->name;
    if (index < option_count)
        return option_table[index].variable;
    index -= option_count;
    return index < figure_count() ? figure_at(index).name : NULL;
}

static int unknown_name(const char *name) {
    size_t count = 0;
    while (help_name(count))
        count++;
    const char *nearest = nearest_word(name, count, help_name);
    if (hint_meant(name))
        complain("there is no help on %s; %s", name, hint_meant(name));
    else if (nearest)
        complain("there is no help on %s; did you mean `vramgc help %s`?", name, nearest);
    else
        complain("there is no help on %s; there is on each command, setting and figure, and on "
                 "settings, metrics, json, schema, alerts",
                 name);
    return STATUS_USAGE;
}

/* Each writes what has that name; false: nothing has it. */
static bool wrote_topic(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(topics); i++)
        if (strcmp(name, topics[i].name) == 0) {
            if (topics[i].write)
                topics[i].write();
            else
                fputs(topics[i].text, stdout);
            return true;
        }
    return false;
}

static bool wrote_command(const char *name) {
    const struct command *command = command_find(name);
    if (command)
        help_on(command);
    return command;
}

static bool same_word(const char *typed, const char *name) {
    size_t i = 0;
    for (; typed[i] && name[i]; i++)
        if (tolower((unsigned char)typed[i]) != name[i] && !(typed[i] == '-' && name[i] == '_'))
            return false;
    return !typed[i] && !name[i];
}

/* VRAMGC_LOG_FILE, --log-file, log_file. */
static bool wrote_setting(const char *name) {
    size_t variable = strncasecmp(name, "VRAMGC_", 7) == 0 ? 7 : 0;
    const char *bare = name + (variable ? variable : strspn(name, "-"));
    struct flag flags[FLAGS_MAX];
    size_t count = settings_flags(flags, FLAGS_MAX), i = 0;
    while (i < count && !same_word(bare, flags[i].name))
        i++;
    if (i < option_count)
        write_setting(&option_table[i]);
    else if (i < count)
        write_flag(&flags[i]);
    return i < count;
}

/* held_bytes, or as the report says it: held. */
static bool is_figure(const char *typed, const char *name) {
    size_t length = strlen(typed);
    return strncmp(typed, name, length) == 0 &&
           (!name[length] || strcmp(name + length, "_bytes") == 0);
}

static bool wrote_figure(const char *name) {
    for (size_t i = 0; i < figure_count(); i++)
        if (is_figure(name, figure_at(i).name)) {
            explain_figure(i);
            return true;
        }
    return false;
}

static int help_main(struct args *args) {
    const char *name = args->argv[1];
    if (!name)
        write_overview();
    else if (!wrote_topic(name) && !wrote_command(name) && !wrote_setting(name) &&
             !wrote_figure(name))
        return unknown_name(name);
    return STATUS_FINE;
}

const struct command help_command = {
    "help",
    GROUP_HELP,
    "[COMMAND|SETTING|settings|metrics|schema|...]",
    "this list; more on a command, a setting or a figure",
    "settings, metrics: all of them. schema: the JSON schema of `report --json`. prometheus-rules, "
    "grafana-dashboard: for the metrics of `export --prometheus`. tables: all of it as JSON.\n",
    .takes_any_word = true,
    .main = help_main,
};
