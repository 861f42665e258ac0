/* cli.h: what the files of the command `vramgc` share: exit statuses, complaints, and what a
 * command is. The command reads statistics files and starts programs; it never touches CUDA. */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/args.h"
#include "read/complain.h"

/* Exit statuses. `run` uses the last three as env(1) and timeout(1) do, because the small numbers
 * belong to the program it starts; all other commands use the first three. */
enum {
    STATUS_FINE = 0,
    STATUS_BAD_INPUT = 1, /* a file could not be read or written */
    STATUS_USAGE = 2,
    STATUS_NOT_RUN = 3, /* prove: no driver, no device, or it is busy */
    STATUS_OURS = 125,  /* run: our own failure, a wrong option, a bad setting under --strict */
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_MISSING = 127,
    STATUS_HELP = -1 /* of a command's own main: its help is wanted */
};

/* One command, for dispatch, help and manual. */
struct command {
    const char *name;
    const char *operands; /* what follows the options, as the synopsis shows it */
    const char *summary;  /* one line */
    const char *details; /* paragraphs for `vramgc help NAME`, each with \n at its end; may be "" */
    bool takes_settings; /* each setting is an option, too */
    const struct flag *flags;
    const size_t *flag_count;
    int (*main)(int argc, char **argv); /* argv[0] is the command's name */
};

/* The flags of each command, defined where the command is. */
extern const struct flag run_flags[], report_flags[], export_flags[], diff_flags[], env_flags[],
    prove_flags[], list_flags[], doctor_flags[], top_flags[], mark_flags[];
extern const size_t run_flag_count, report_flag_count, export_flag_count, diff_flag_count,
    env_flag_count, prove_flag_count, list_flag_count, doctor_flag_count, top_flag_count,
    mark_flag_count;

int run_main(int argc, char **argv);
int report_main(int argc, char **argv);
int export_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int list_main(int argc, char **argv);
int diff_main(int argc, char **argv);
int env_main(int argc, char **argv);
int prove_main(int argc, char **argv);
int top_main(int argc, char **argv);
int mark_main(int argc, char **argv);

#endif
