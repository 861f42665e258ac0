/* main.c: finds the command that was typed, or what was meant. It must do nothing else. */
#include "base/base.h"
#include "cli/help.h"
#include "cli/hint.h"

#include <string.h>

static const struct flag no_flags[] = {{"help", 'h', NULL, "this text"}};
static const size_t no_flag_count = ARRAY_LENGTH(no_flags);

static int version_main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("vramgc %s\n", VRAMGC_VERSION);
    return STATUS_FINE;
}

static const struct command command_table[] = {
    {"run", "[--] COMMAND [ARGUMENT...]",
     "run COMMAND with the library loaded; statistics at the end",
     "Options end at the first word that is not one, or at --; what follows belongs to COMMAND. "
     "Every setting of `vramgc help env` is an option, too.\n"
     "The exit status is COMMAND's; when a signal ended it, vramgc ends itself by the same signal, "
     "which a shell shows as 128+N. 127: COMMAND is missing, 126: it cannot be executed, 125: "
     "vramgc itself failed, an option is wrong, or a setting is and --strict was given.\n"
     "A signal sent to vramgc alone is passed on to COMMAND; one that both get, as by Ctrl-C, is "
     "not. Programs that are set-uid or linked statically cannot be watched.\n",
     true, run_flags, &run_flag_count, run_main},
    {"report", "[FILE...]", "statistics of a finished, crashed, killed or running process",
     "Without FILE, of the newest run that is kept (see `vramgc list`). "
     "Exit status 1 when a file could not be read or written, 2 for a wrong call.\n",
     false, report_flags, &report_flag_count, report_main},
    {"export", "[FILE...]",
     "the statistics for other tools: a spreadsheet, Prometheus, Perfetto, PyTorch",
     "Without FILE, the newest run that is kept; --prometheus: all processes that run. "
     "A file of a running process is read as it is now: with --every the collector sees it. "
     "Exit status as for report.\n",
     false, export_flags, &export_flag_count, export_main},
    {"list", "", "the runs whose statistics are kept, newest first",
     "They lie in ${XDG_STATE_HOME:-~/.local/state}/vramgc, or where VRAMGC_OUT says.\n", false,
     list_flags, &list_flag_count, list_main},
    {"top", "[PID...]", "who has the memory of the cards now: each of your programs, live",
     "Programs that run under vramgc are found by their statistics files; with PID only these are "
     "shown. The sum of a card is its programs, others, the driver and what is free. Keys: q, s "
     "(sort), arrows (details of one program), ? (help). Without a terminal it is one screen of "
     "text, as with --once.\n",
     false, top_flags, &top_flag_count, top_main},
    {"mark", "PID|NAME LABEL", "put a label on the timeline of a program that runs",
     "NAME: a word of its name, folder or arguments that no other program under vramgc has. As the "
     "program itself does with vramgc_mark(): the report has a row for it, and an M in the "
     "graph. `vramgc top` shows the numbers. Of LABEL 47 bytes are kept. Exit status 1 when there "
     "is no such program under vramgc, 2 for a wrong call.\n",
     false, mark_flags, &mark_flag_count, mark_main},
    {"diff", "A B", "two runs side by side",
     "First what became of each, and whether one ended early; then the ten figures that matter "
     "most. Devices are paired by index. Exit status as for report.\n",
     false, diff_flags, &diff_flag_count, diff_main},
    {"prove", "", "whether your card bears mode compact: a minute, then auto uses it",
     "Asks the driver all that mode compact relies on, moves pages under running work, measures "
     "what calls cost, and writes the answer to ~/.local/state/vramgc (XDG_STATE_HOME). Close "
     "what uses the card: its memory is full for a moment. The card is left as it was; Ctrl-C "
     "ends it, and nothing is written.\n"
     "Exit status 1 when the card does not bear it, 3 when it could not be tried.\n",
     false, prove_flags, &prove_flag_count, prove_main},
    {"doctor", "[-- COMMAND [ARGUMENT...]]",
     "what stands in the way of vramgc on this machine, or for one command",
     "With COMMAND it is run under vramgc to its end: what is hooked then, and which of its "
     "processes "
     "use CUDA without the library. Exit status: 1 when something is wrong, else 0.\n",
     false, doctor_flags, &doctor_flag_count, doctor_main},
    {"env", "", "lines for webui-user.sh, which load the library without `vramgc run`",
     "Options are settings to be put into the lines.\n", true, env_flags, &env_flag_count,
     env_main},
    {"help", "[COMMAND|SETTING|env|metrics|schema|man|...]",
     "this list, a command, the settings, the figures",
     "env: the settings. metrics: the figures. schema: the JSON schema of `report --json`. "
     "markdown-settings: the table of the README. man: the manual page, as troff. "
     "completion-bash, completion-zsh, completion-fish: what the shell offers behind vramgc.\n",
     false, no_flags, &no_flag_count, help_main},
    {"version", "", "the version of vramgc", "", false, no_flags, &no_flag_count, version_main},
};
static const size_t command_count = ARRAY_LENGTH(command_table);

static const char *command_name(size_t index) {
    return command_table[index].name;
}

static int unknown_command(char **words) {
    const char *nearest = nearest_word(words[0], command_count, command_name);
    char run[256];
    hint_run(words, run, sizeof run);
    if (*words[0] == '-')
        complain(
            "%s stands before the command of vramgc; see `vramgc help`, or: vramgc run %s COMMAND",
            words[0], words[0]);
    else if (nearest)
        complain("%s is not a command; did you mean `vramgc %s`?", words[0], nearest);
    else if (hint_is_program(words[0]))
        complain("%s is no command of vramgc; did you mean: %s", words[0], run);
    else
        complain("%s is not a command; see `vramgc help`", words[0]);
    return STATUS_USAGE;
}

static bool asks_for_help(const char *argument) {
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

int main(int argc, char **argv) {
    help_open(command_table, command_count);
    if (argc < 2) {
        complain("what to do is missing: vramgc run COMMAND, or see `vramgc help`");
        return STATUS_USAGE;
    }
    if (asks_for_help(argv[1]))
        return help_main(1, argv + 1);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return version_main(1, argv + 1);
    const struct command *command = command_find(argv[1]);
    if (!command)
        return unknown_command(argv + 1);
    if (argc > 2 && asks_for_help(argv[2]))
        return command_help(command->name);
    int status = command->main(argc - 1, argv + 1);
    return status == STATUS_HELP ? command_help(command->name) : status;
}
