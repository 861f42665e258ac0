/* help.c: the command `vramgc help`, written from the tables; nothing that a table knows is
 * repeated here. */
#include "cli/help.h"
#include "cli/completion.h"
#include "cli/hint.h"
#include "read/derived.h"
#include "cli/man.h"
#include "cli/settings.h"
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

static void write_paragraphs(const char *details) {
    for (struct paragraph paragraph; args_paragraph(&details, &paragraph);) {
        if (paragraph.behind)
            printf("  %s\n", paragraph.text);
        else if (!*paragraph.text)
            puts("");
        const char *words = paragraph.behind ? paragraph.behind : paragraph.text;
        summary_wrapped_at(stdout, paragraph.behind ? 8 : 0, "", words);
    }
}

void help_first(FILE *out) {
    fprintf(out, "vramgc %s: gives idle GPU memory back and tells where it went\n\n",
            VRAMGC_VERSION);
    fputs("  vramgc prove                       once, a minute: tests your card; first\n"
          "                                     stop your web UI\n"
          "  vramgc run ./webui.sh              starts a web UI; at its end, a report\n"
          "  vramgc run --lowvram ./webui.sh    the same; idle memory goes back at once,\n"
          "                                     and no model is moved to RAM\n"
          "  vramgc report                      the newest run: what happened, what to do\n"
          "  vramgc top                         who has the card's memory now\n"
          "  vramgc doctor                      what is wrong or missing on this machine\n",
          out);
}

static void write_commands(enum command_group group) {
    for (size_t i = 0; commands[i]; i++)
        if (commands[i]->group == group)
            printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
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
        write_commands(group);
    }
    puts("\n`vramgc help COMMAND`: its options. `vramgc help settings`: all settings.");
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
    write_paragraphs(command->details);
    if (!command->takes_settings) {
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
    puts("\nSeldom set:");
    for (const struct flag *flag = settings; flag < flags + count; flag++)
        if (!settings_is_often_set(flag->name))
            write_flag(flag);
}

static const char *shown_default(const struct option_info *info) {
    return *info->standard ? info->standard : "(empty)";
}

static void write_setting(const struct option_info *info) {
    printf("  %s=%s   (default %s)\n", info->variable,
           info->type == BOOL ? "0|1" : settings_argument(info), shown_default(info));
    summary_wrapped_at(stdout, 8, "", info->help);
}

static void write_settings(void) {
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

/* A cell of a Markdown table must not hold its separator. */
static void write_cell(const char *text) {
    for (; *text; text++)
        if (*text == '|')
            fputs("\\|", stdout);
        else
            fputc(*text, stdout);
}

static void write_table(bool only_often_set) {
    puts("setting | default | meaning\n---|---|---");
    for (size_t i = 0; i < option_count; i++) {
        const struct option_info *info = &option_table[i];
        if (only_often_set && !settings_is_often_set(info->name))
            continue;
        printf("`%s=", info->variable);
        write_cell(info->type == BOOL ? "0|1" : settings_argument(info));
        printf("` | %s%s%s | ", *info->standard ? "`" : "", shown_default(info),
               *info->standard ? "`" : "");
        write_cell(info->help);
        putchar('\n');
    }
}

static void write_markdown_settings(void) {
    write_table(false);
}

static void write_markdown_often_set(void) {
    write_table(true);
}

static void write_figure(const char *name, const char *unit, const char *help) {
    printf("  %s (%s)\n", name, unit);
    summary_wrapped_at(stdout, 8, "", help);
}

static void write_stat(const struct stat_info *info) {
    write_figure(info->name, unit_name(info->unit), info->help);
}

static void write_derived(const struct derived_info *info) {
    write_figure(info->name, "derived", info->help);
}

static void write_group(const char *title, enum stat_group group) {
    puts(title);
    for (size_t i = 0; i < stat_count; i++)
        if (stat_table[i].group == group)
            write_stat(&stat_table[i]);
}

static void write_metrics(void) {
    write_group("For each device, current value and peak:", STAT_DEVICE_GAUGE);
    write_group("\nFor each device, only ever growing:", STAT_DEVICE_TOTAL);
    write_group("\nFor the process, only ever growing:", STAT_PROCESS_TOTAL);
    write_group("\nFor each device, sums that figures below are computed from:", STAT_DEVICE_SUM);
    puts("\nFor each device, computed from the others:");
    for (size_t i = 0; i < DERIVED_COUNT; i++)
        write_derived(&derived_table[i]);
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

static void write_json(void) {
    write_paragraphs(
        "`vramgc report --json FILE...` prints one object, `vramgc run --json FILE` writes it. "
        "Sizes are bytes, times nanoseconds, and what is unknown is null. Within one value of "
        "`schema` fields are only added.\n"
        "`vramgc help schema` is its JSON schema; `vramgc help metrics` explains each figure.\n");
}

static void write_rules(void) {
    fputs(prometheus_rules, stdout);
}

static void write_dashboard(void) {
    fputs(grafana_dashboard, stdout);
}

/* What --on and VRAMGC_ON take. */
static void write_alerts(void) {
    help_on(command_find("watch"));
}

static const struct {
    const char *name;
    void (*write)(void);
} topics[] = {{"settings", write_settings},
              {"metrics", write_metrics},
              {"json", write_json},
              {"schema", write_schema},
              {"markdown-settings", write_markdown_settings},
              {"markdown-often-set", write_markdown_often_set},
              {"prometheus-rules", write_rules},
              {"grafana-dashboard", write_dashboard},
              {"alerts", write_alerts},
              {"oom", write_alerts},
              {"growth", write_alerts},
              {"man", man_write},
              {"completion-bash", completion_bash},
              {"completion-zsh", completion_zsh},
              {"completion-fish", completion_fish}};

/* --- one thing by its name --- */

/* All names that there is help on, one after the other; NULL behind the last. */
static const char *name_of(size_t index) {
    if (index < ARRAY_LENGTH(topics))
        return topics[index].name;
    index -= ARRAY_LENGTH(topics);
    for (size_t i = 0; commands[i]; i++, index--)
        if (index == 0)
            return commands[i]->name;
    if (index < option_count)
        return option_table[index].variable;
    index -= option_count;
    if (index < stat_count)
        return stat_table[index].name;
    index -= stat_count;
    return index < DERIVED_COUNT ? derived_table[index].name : NULL;
}

static int unknown_name(const char *name) {
    size_t count = 0;
    while (name_of(count))
        count++;
    const char *nearest = nearest_word(name, count, name_of);
    if (hint_meant(name))
        complain("there is no help on %s; %s", name, hint_meant(name));
    else if (nearest)
        complain("there is no help on %s; did you mean `vramgc help %s`?", name, nearest);
    else
        complain("there is no help on %s; there is on each command, setting and figure, and on "
                 "settings, metrics, json, schema, alerts, man",
                 name);
    return STATUS_USAGE;
}

/* Each writes what has that name; false: nothing has it. */
static bool wrote_topic(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(topics); i++)
        if (strcmp(name, topics[i].name) == 0) {
            topics[i].write();
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
    for (size_t i = 0; i < stat_count; i++)
        if (is_figure(name, stat_table[i].name)) {
            write_stat(&stat_table[i]);
            return true;
        }
    for (size_t i = 0; i < DERIVED_COUNT; i++)
        if (is_figure(name, derived_table[i].name)) {
            write_derived(&derived_table[i]);
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
    "[COMMAND|SETTING|settings|metrics|schema|man|...]",
    "this list; more on a command, a setting or a figure",
    "settings, metrics: all of them. schema: the JSON schema of `report --json`. "
    "markdown-settings: all as a table, markdown-often-set: the README's. prometheus-rules, "
    "grafana-dashboard: for the "
    "metrics of `export --prometheus`. man: the manual page, as troff. "
    "completion-bash, completion-zsh, completion-fish: what the shell offers behind vramgc.\n",
    .takes_any_word = true,
    .main = help_main,
};
