/* cli.c: see cli.h. */
#include "cli/cli.h"
#include "cli/settings.h"
#include "base/base.h"

const struct command *const *commands;

const struct command *command_find(const char *name) {
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static bool help;

size_t command_flags(const struct command *command, struct flag *flags) {
    size_t count = command->flag_count;
    if (count > 0)
        memcpy(flags, command->flags, count * sizeof *flags);
    flags[count++] = (struct flag){"help", 'h', NULL, "this text", .on = &help};
    return command->takes_settings ? count + settings_flags(flags + count, FLAGS_MAX - count)
                                   : count;
}

int command_run(const struct command *command, int argc, char **argv, bool *wants_help) {
    struct flag flags[FLAGS_MAX];
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = flags,
                        .flag_count = command_flags(command, flags),
                        .stop_at_operand = command->takes_command,
                        .command = command->name,
                        .next = 1};
    if (!command->takes_any_word && !args_read(&args, &help))
        return command->wrong_call ? command->wrong_call : STATUS_USAGE;
    *wants_help = help;
    if (help)
        return STATUS_FINE;
    if (args.operand_count > 0 && !*command->operands) {
        complain("%s is too much; `vramgc %s` takes options only", argv[0], command->name);
        return STATUS_USAGE;
    }
    return command->main(&args);
}
