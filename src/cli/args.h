/* args.h: reads command lines by table: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, -ab. It
 * knows no particular option. Where operands may stand between options they are moved to the front
 * of argv; `run` stops at the first instead, so that the program's own options are never eaten. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { FLAGS_MAX = 64 }; /* of one command: `run`, with every setting, has 29 */

struct args;

/* One option. A name may be typed with - or _. */
struct flag {
    const char *name;     /* without the leading -- */
    char letter;          /* of the short form, 0: none */
    const char *argument; /* what follows, as the help shows it; NULL: nothing;
                             beginning with [: only after =, and may be left out */
    const char *help;
    bool *on;                              /* becomes true; NULL: nothing does */
    const char **value;                    /* becomes its value; NULL: nothing does */
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

/* Reads up to the first option that is *stop, or to the end. False after a complaint. At the end
 * the operands are argv[0 .. operand_count), or argv[next ..] with stop_at_operand. */
bool args_read(struct args *args, const bool *stop);

/* "-t, --threshold PERCENT", for the help. */
void args_heading(const struct flag *flag, char *out, size_t capacity);

/* A paragraph of a command's details; what stands behind a tab in it is text for the word before.
 * False: there is none left. */
struct paragraph {
    char text[1024];
    const char *behind; /* NULL: there is no tab */
};
bool args_paragraph(const char **details, struct paragraph *out);
