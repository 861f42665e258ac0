/* cli.h: how what is typed is read, and what the files of the command `vramgc` share. It reads
 * statistics files and starts programs, and never touches CUDA.
 *
 *     main.c     the command that was typed, or meant (hint.c)
 *     cli.c      its options, by its table: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, -ab;
 *                for `run`, `env` and `watch` the settings of options.def, too, which go into the
 *                environment, where the library's own parser finds them
 *     FILE.c     the command: what it is told of itself stands in its table, and nowhere else
 *
 * Where operands may stand between options they are moved to the front of argv; `run` stops at the
 * first instead, so that the program's own options are never eaten. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/options.h"
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

/* ---- options ---- */

enum { FLAGS_MAX = 64 }; /* of one command: `run`, with every setting, has 29 */

struct args;

/* One option. A name may be typed with - or _. */
struct flag {
    const char *name;     /* without the leading -- */
    char letter;          /* of the short form, 0: none */
    const char *argument; /* what follows, as the help shows it; NULL: nothing;
                             beginning with [: only after =, and may be left out */
    const char *help;
    bool *on;           /* becomes true; NULL: nothing does */
    const char **value; /* becomes its value, one of the words in argument that have | between */
    uint64_t *every_ns; /* becomes its value, a duration of at least 100ms */
    bool (*take)(const struct args *args); /* does the rest; false after a complaint */
};

struct args {
    int argc;
    char **argv;
    const struct flag *flags;
    size_t flag_count;
    bool stop_at_operand;
    const char *command;     /* for "see `vramgc help COMMAND`" */
    int next;                /* first argument not looked at yet; start with 1 */
    int operand_count;       /* operands found so far, in argv[0 ..] */
    const char *cluster;     /* rest of -abc */
    const struct flag *flag; /* the latest option */
    const char *value;       /* its value; NULL: none */
    const char *typed;       /* the argument that it is, which may hold the value */
    bool value_apart;        /* the value is an argument of its own */
};

/* "-t, --threshold PERCENT", for the help. */
void args_heading(const struct flag *flag, char *out, size_t capacity);

/* ---- settings ---- */

/* Writes the settings as flags (--threshold PERCENT, -t, ...), option_count of them, and behind
 * them other words for some (--give-back); how many in all. What is typed goes into the
 * environment. */
size_t settings_flags(struct flag *flags, size_t capacity);

/* An option that is a setting, of another command. */
bool settings_take(const struct args *args);

/* The setting of that name, as in the table; NULL: there is none. */
const struct option_info *settings_find(const char *name);

/* One that is set for a card, a web UI or a wish; of the others the standard is mostly right. */
bool settings_is_often_set(const char *name);

/* True for one of option_table that was typed. */
bool settings_typed(const struct option_info *info);

/* Reads the environment, complains about each bad setting, and removes those from it. */
void settings_read_environment(struct options *options);

/* The form of its value: PERCENT, SIZE, off|observe|flush|compact|auto. */
const char *settings_argument(const struct option_info *info);

/* ---- commands ---- */

/* Commands by what they are for: `vramgc help` has a heading for each, in this order. */
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
    int least, most;     /* so many operands, none of them empty; most 0: any number */
    const char *lacking; /* what is asked for where there are others */
    int (*main)(struct args *args);
};

#define FLAGS(list) .flags = (list), .flag_count = ARRAY_LENGTH(list)

extern const struct command run_command, report_command, export_command, list_command, top_command,
    watch_command, mark_command, set_command, park_command, wake_command, diff_command,
    prove_command, doctor_command, whatif_command, env_command, help_command;

/* All of them, with NULL behind the last: set before anything else here. */
extern const struct command *const *commands;

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/* Writes its options into flags, which has FLAGS_MAX entries: its own, --help, the settings. */
size_t command_flags(const struct command *command, struct flag *flags);

/* Reads its options and runs it; its exit status. *wants_help: --help was typed, and nothing was
 * done. */
int command_run(const struct command *command, int argc, char **argv, bool *wants_help);

/* ---- processes and signals ---- */

/* Starts a program in a session of its own, with no input and no output. 0 or less: it cannot be.
 */
pid_t start_apart(const char *const *words);

/* From now on SIGINT, SIGTERM and SIGHUP end nothing: their number is in the result. */
const volatile sig_atomic_t *stop_catch(void);

/* Ends this process as if the signal had not been caught; where there was none it returns. */
void stop_end(void);

/* ---- the tables as texts for people (help.c) ---- */

/* For `vramgc` alone: what is typed first. */
void help_first(FILE *out);

/* For `vramgc NAME --help`. */
void help_on(const struct command *command);
