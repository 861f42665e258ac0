/* main.c: finds the command that was typed, or what was meant. It must do nothing else. */
#include "base/base.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "cli/hint.h"

#include <string.h>

static int version_main(struct args *args) {
    (void)args;
    printf("vramgc %s\n", VRAMGC_VERSION);
    return STATUS_FINE;
}

static const struct command version_command = {
    "version",           GROUP_HELP, "", "the version of vramgc", "", .takes_any_word = true,
    .main = version_main};

static const struct command *const all[] = {
    &run_command,  &env_command,  &prove_command,  &doctor_command, &report_command,  &top_command,
    &list_command, &diff_command, &whatif_command, &export_command, &watch_command,   &mark_command,
    &set_command,  &park_command, &wake_command,   &help_command,   &version_command, NULL,
};

static const char *command_name(size_t index) {
    return all[index]->name;
}

static int unknown_command(char **words) {
    const char *nearest = nearest_word(words[0], ARRAY_LENGTH(all) - 1, command_name);
    char run[256];
    hint_run(words, run, sizeof run);
    if (*words[0] == '-')
        complain(
            "%s stands before the command of vramgc; see `vramgc help`, or: vramgc run %s COMMAND",
            words[0], words[0]);
    else if (hint_meant(words[0]))
        complain("%s is not a command; %s", words[0], hint_meant(words[0]));
    else if (nearest)
        complain("%s is not a command; did you mean `vramgc %s`?", words[0], nearest);
    else if (hint_is_program(words[0]))
        complain("%s is no command of vramgc; did you mean: %s", words[0], run);
    else
        complain("%s is not a command; see `vramgc help`", words[0]);
    return STATUS_USAGE;
}

static bool asks_for_help(const char *argument) {
    return parse_choice(argument, "--help|-h") >= 0;
}

int main(int argc, char **argv) {
    bool wants_help = false;
    commands = all;
    if (argc < 2) {
        help_first(stderr);
        fputs("\n`vramgc help` has all commands.\n", stderr);
        return STATUS_USAGE;
    }
    bool asks_version = parse_choice(argv[1], "--version|-V") >= 0;
    const char *name = asks_for_help(argv[1]) ? "help" : asks_version ? "version" : argv[1];
    const struct command *command = command_find(name);
    if (!command)
        return unknown_command(argv + 1);
    int status = STATUS_FINE;
    if (argc > 2 && asks_for_help(argv[2]))
        wants_help = true;
    else
        status = command_run(command, argc - 1, argv + 1, &wants_help);
    if (wants_help)
        help_on(command);
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status != STATUS_FINE)
        return status;
    complain("standard output cannot be written");
    return STATUS_BAD_INPUT;
}
