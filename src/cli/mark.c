/* mark.c: the command `vramgc mark`: a named point on the timeline of a program that runs. It
 * writes into that program's statistics file as the program itself does, beside it: the entries are
 * made for several writers (base/ring.h). It must not write into any other file, nor into that of a
 * program that has ended. */
#include "cli/cli.h"
#include "cli/live_file.h"

static int mark_main(struct args *args) {
    const char *name = args->argv[0], *label = args->argv[1];
    if (args->operand_count != 2 || !*name || !*label) {
        complain(
            "one program, and one label, in quotes if it has spaces: vramgc mark PID|NAME LABEL");
        return STATUS_USAGE;
    }
    struct vramgc_file *file = live_file_open(name);
    if (!file)
        return STATUS_BAD_INPUT;
    live_file_mark(file, label);
    live_file_close(file);
    return STATUS_FINE;
}

const struct command mark_command = {
    "mark",
    GROUP_RUNNING,
    "PID|NAME LABEL",
    "put a label on a program's timeline",
    "NAME: main.py, its script, or ComfyUI, the folder of that; where several are called so they "
    "are listed, and nothing is done. As the program itself does with vramgc_mark(): the report "
    "has a row for it, and an M in the graph. `vramgc top` shows the numbers. Of LABEL 47 bytes "
    "are kept. Exit status 1 when there is no such program under vramgc, 2 for a wrong call.\n",
    .main = mark_main,
};
