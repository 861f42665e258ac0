/* man.c: the manual page, written from the same tables as the help. */
#include "cli/man.h"
#include "read/derived.h"
#include "cli/settings.h"
#include "read/units.h"
#include "base/base.h"

#include <string.h>

/* A line of text for troff: backslashes and dashes are escaped, and no line may begin with a
 * control character of its own. */
static void write_text(FILE *out, const char *text) {
    bool at_start = true;
    for (; *text; text++) {
        if (at_start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        at_start = *text == '\n';
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
}

static void write_item(FILE *out, const char *heading, const char *help) {
    fputs(".TP\n\\fB", out);
    write_text(out, heading);
    fputs("\\fR\n", out);
    write_text(out, help);
    fputc('\n', out);
}

static void write_flags(FILE *out, const struct flag *flags, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char heading[128];
        args_heading(&flags[i], heading, sizeof heading);
        write_item(out, heading, flags[i].help);
    }
}

static void write_commands(FILE *out, const struct command *commands, size_t count) {
    fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; i < count; i++) {
        const struct command *command = &commands[i];
        fputs(".SS vramgc ", out);
        write_text(out, command->name);
        fputs(" [OPTIONS] ", out);
        write_text(out, command->operands);
        fputc('\n', out);
        write_text(out, command->summary);
        fputs(".\n", out);
        write_text(out, command->details);
        write_flags(out, command->flags, *command->flag_count);
    }
}

static void write_settings(FILE *out) {
    fputs(".SH SETTINGS\n", out);
    write_text(out, "Variables of the environment; run and env have each as an option of the same "
                    "name: --threshold 70 is VRAMGC_THRESHOLD=70.\n");
    for (size_t i = 0; i < option_count; i++) {
        const struct option_info *info = &option_table[i];
        char heading[160];
        snprintf(heading, sizeof heading, "%s=%s (default %s)", info->variable,
                 info->type == BOOL ? "0|1" : settings_argument(info),
                 *info->standard ? info->standard : "empty");
        write_item(out, heading, info->help);
    }
    size_t count;
    const struct flag *words = settings_words(&count);
    write_flags(out, words, count);
}

static void write_figure(FILE *out, const char *name, const char *unit, const char *help) {
    char heading[96];
    snprintf(heading, sizeof heading, "%s (%s)", name, unit);
    write_item(out, heading, help);
}

static void write_figures(FILE *out) {
    fputs(".SH FIGURES\n", out);
    for (size_t i = 0; i < stat_count; i++)
        write_figure(out, stat_table[i].name, unit_name(stat_table[i].unit), stat_table[i].help);
    for (size_t i = 0; i < DERIVED_COUNT; i++)
        write_figure(out, derived_table[i].name, "derived", derived_table[i].help);
}

void man_write(FILE *out, const struct command *commands, size_t count) {
    fprintf(out, ".TH VRAMGC 1 \"\" \"vramgc %s\" \"User Commands\"\n", VRAMGC_VERSION);
    fputs(".SH NAME\nvramgc \\- gives idle GPU memory of PyTorch programs back, and tells where it "
          "went\n.SH SYNOPSIS\n",
          out);
    for (size_t i = 0; i < count; i++) {
        fputs(".B vramgc ", out);
        write_text(out, commands[i].name);
        fputs("\n[OPTIONS] ", out);
        write_text(out, commands[i].operands);
        fputs("\n.br\n", out);
    }
    write_commands(out, commands, count);
    write_settings(out);
    write_figures(out);
    fputs(".SH EXIT STATUS\n", out);
    write_text(out, "run: that of the command; 125 when vramgc itself failed, 126 when the command "
                    "cannot be executed, 127 when it is missing. Other commands: 0; 1 when a file "
                    "could not be read or written; 2 for a wrong call.\n");
}
