/* cli.h: what the files of the command `vramgc` share: exit statuses, complaints, and what a
 * command is. The command reads statistics files and starts programs; it never touches CUDA. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/args.h"
#include "read/complain.h"

/* Exit statuses. `run` uses the last three as env(1) and timeout(1) do, because the small numbers
 * belong to the program it starts; all other commands use the first three, and
 * `prove` 3 (prove_card.h). */
enum {
    STATUS_FINE = 0,
    STATUS_BAD_INPUT = 1, /* a file could not be read or written */
    STATUS_USAGE = 2,
    STATUS_OURS = 125, /* run: our own failure, a wrong option */
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_MISSING = 127,
};

/* What a command is for: `vramgc help` has a heading for each, in this order. */
enum command_group { GROUP_NONE, GROUP_START, GROUP_LOOK, GROUP_RUNNING, GROUP_HELP, GROUP_COUNT };

/* One command, for dispatch, help and manual. */
struct command {
    const char *name;
    enum command_group group;
    const char *operands; /* what follows the options, as the synopsis shows it */
    const char *summary;  /* one line of the list: at most 68 columns */
    const char *details; /* paragraphs for `vramgc help NAME`, each with \n at its end; may be "" */
    const struct flag *flags; /* its own; --help stands behind them */
    size_t flag_count;
    bool takes_settings; /* each setting is an option, too */
    bool takes_command;  /* another program's, whose options are not ours */
    bool takes_any_word; /* also one that looks like an option */
    int wrong_call;      /* exit status; 0: STATUS_USAGE */
    int (*main)(struct args *args);
};

#define FLAGS(list) .flags = (list), .flag_count = ARRAY_LENGTH(list)

extern const struct command run_command, report_command, export_command, list_command, top_command,
    watch_command, mark_command, set_command, park_command, wake_command, diff_command,
    prove_command, doctor_command, env_command, help_command;

/* All of them, with NULL behind the last: set before anything else here. */
extern const struct command *const *commands;

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/* Writes its options into flags, which has FLAGS_MAX entries: its own, --help, the settings. */
size_t command_flags(const struct command *command, struct flag *flags);

/* Reads its options and runs it; its exit status. *wants_help: --help was typed, and nothing was
 * done. */
int command_run(const struct command *command, int argc, char **argv, bool *wants_help);
