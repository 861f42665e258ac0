/* man.c: the manual page, written from the same tables as the help. */
#include "cli/man.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "read/derived.h"
#include "read/units.h"

/* A line of text for troff: backslashes and dashes are escaped, and no line may begin with a
 * control character of its own. */
static void write_text(const char *text) {
    bool at_start = true;
    for (; *text; text++) {
        if (at_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        at_start = *text == '\n';
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            fputc(*text, stdout);
    }
}

static void write_item(const char *heading, const char *help) {
    fputs(".TP\n\\fB", stdout);
    write_text(heading);
    fputs("\\fR\n", stdout);
    write_text(help);
    fputc('\n', stdout);
}

static void write_details(const char *details) {
    for (struct paragraph paragraph; args_paragraph(&details, &paragraph);) {
        if (paragraph.behind) {
            write_item(paragraph.text, paragraph.behind);
            continue;
        }
        fputs(".PP\n", stdout);
        write_text(paragraph.text);
        fputc('\n', stdout);
    }
}

static void write_flags(const struct flag *flags, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char heading[128];
        args_heading(&flags[i], heading, sizeof heading);
        write_item(heading, flags[i].help);
    }
}

static void write_commands(void) {
    fputs(".SH COMMANDS\n", stdout);
    for (size_t i = 0; commands[i]; i++) {
        const struct command *command = commands[i];
        struct flag flags[FLAGS_MAX];
        command_flags(command, flags);
        fputs(".SS vramgc ", stdout);
        write_text(command->name);
        fputs(" [OPTIONS] ", stdout);
        write_text(command->operands);
        fputc('\n', stdout);
        write_text(command->summary);
        fputs(".\n", stdout);
        write_details(command->details);
        write_flags(flags, command->flag_count + 1); /* the settings have a section of their own */
    }
}

static void write_settings(void) {
    fputs(".SH SETTINGS\n", stdout);
    write_text("Variables of the environment; run and env have each as an option of the same "
               "name: --threshold 70 is VRAMGC_THRESHOLD=70.\n");
    for (size_t i = 0; i < option_count; i++) {
        const struct option_info *info = &option_table[i];
        char heading[160];
        snprintf(heading, sizeof heading, "%s=%s (default %s)", info->variable,
                 info->type == BOOL ? "0|1" : settings_argument(info),
                 *info->standard ? info->standard : "empty");
        write_item(heading, info->help);
    }
    struct flag flags[FLAGS_MAX];
    size_t count = settings_flags(flags, FLAGS_MAX);
    write_flags(flags + option_count, count - option_count);
}

static void write_figure(const char *name, const char *unit, const char *help) {
    char heading[96];
    snprintf(heading, sizeof heading, "%s (%s)", name, unit);
    write_item(heading, help);
}

static void write_figures(void) {
    fputs(".SH FIGURES\n", stdout);
    for (size_t i = 0; i < stat_count; i++)
        write_figure(stat_table[i].name, unit_name(stat_table[i].unit), stat_table[i].help);
    for (size_t i = 0; i < DERIVED_COUNT; i++)
        write_figure(derived_table[i].name, "derived", derived_table[i].help);
}

void man_write(void) {
    printf(".TH VRAMGC 1 \"\" \"vramgc %s\" \"User Commands\"\n", VRAMGC_VERSION);
    fputs(".SH NAME\nvramgc \\- gives idle GPU memory of PyTorch programs back, and tells where it "
          "went\n.SH SYNOPSIS\n",
          stdout);
    for (size_t i = 0; commands[i]; i++) {
        fputs(".B vramgc ", stdout);
        write_text(commands[i]->name);
        fputs("\n[OPTIONS] ", stdout);
        write_text(commands[i]->operands);
        fputs("\n.br\n", stdout);
    }
    write_commands();
    write_settings();
    write_figures();
    fputs(".SH EXIT STATUS\n", stdout);
    write_text("run: that of the command; 125 when vramgc itself failed, 126 when the command "
               "cannot be executed, 127 when it is missing. Other commands: 0; 1 when a file "
               "could not be read or written; 2 for a wrong call.\n");
}
