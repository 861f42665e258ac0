/* prove.c: the command `vramgc prove`. What it does lies in the room `prove`; here is only what is
 * typed. */
#include "cli/cli.h"
#include "cli/preload.h"
#include "base/base.h"
#include "prove/proof_file.h"
#include "prove/prove_card.h"

#include <limits.h>
#include <stdlib.h>

enum {
    FLAG_QUICK,
    FLAG_FULL,
    FLAG_FAULT,
    FLAG_DEVICE,
    FLAG_PYTHON,
    FLAG_SHOW,
    FLAG_SHARE,
    FLAG_FORGET,
    FLAG_HELP
};

const struct flag prove_flags[] = {
    {"quick", 0, NULL, "ten seconds at most: what the page engine relies on, and a short soak"},
    {"full", 0, NULL, "some minutes: a long soak, and costs of many samples"},
    {"fault", 0, NULL,
     "besides, touch a page that is not open: the kernel logs an Xid 31, for which some data "
     "centres take a machine out of service"},
    {"device", 0, "N", "only this one, as the driver numbers them (default: all)"},
    {"python", 0, "PYTHON",
     "besides, soak the PyTorch of this interpreter (your web UI's) by each of its allocators"},
    {"show", 0, NULL, "print what was proven before; touch no card"},
    {"share", 0, NULL, "the same for a bug tracker: without what tells your card from others"},
    {"forget", 0, NULL, "remove what was proven: mode auto is flush again"},
    {"help", 'h', NULL, "this text"},
};
const size_t prove_flag_count = ARRAY_LENGTH(prove_flags);

struct wish {
    struct prove_wish how;
    int device;
    const char *python;
    int instead; /* FLAG_SHOW, FLAG_SHARE, FLAG_FORGET; or FLAG_HELP: to prove */
};

static bool read_device(const char *value, int *device) {
    char *rest;
    long number = strtol(value, &rest, 10);
    *device = (int)number;
    if (*value && !*rest && number >= 0 && number < 1024)
        return true;
    complain("--device %s is not the number of a device", value);
    return false;
}

static bool take(struct wish *wish, int flag, const char *value) {
    if (flag == FLAG_QUICK)
        wish->how.form = FORM_QUICK;
    else if (flag == FLAG_FULL)
        wish->how.form = FORM_FULL;
    else if (flag == FLAG_FAULT)
        wish->how.faults = true;
    else if (flag == FLAG_DEVICE)
        return read_device(value, &wish->device);
    else if (flag == FLAG_PYTHON)
        wish->python = value;
    else
        wish->instead = flag;
    return true;
}

static int told(size_t count, const char *none) {
    if (count == 0)
        complain("%s", none);
    return count ? STATUS_FINE : STATUS_BAD_INPUT;
}

/* What stands in LD_PRELOAD stays, behind our library. */
static char *preload_for(void) {
    char library[PATH_MAX], error[PATH_MAX + 128];
    const char *existing = getenv("LD_PRELOAD");
    if (!preload_library(library, sizeof library, error, sizeof error)) {
        complain("%s", error);
        return NULL;
    }
    return preload_join(library, "", existing ? existing : "");
}

/* A library of ours that is preloaded here must stay out of it: this is the driver's own trial. */
static int prove(const struct wish *wish) {
    static const int statuses[] = {[PROVE_PASSED] = STATUS_FINE,
                                   [PROVE_FAILED] = STATUS_BAD_INPUT,
                                   [PROVE_NOT_RUN] = STATUS_NOT_RUN};
    char *preload = wish->python ? preload_for() : NULL;
    struct python python = {.interpreter = wish->python, .preload = preload};
    if (wish->python && !preload)
        return STATUS_NOT_RUN;
    setenv("VRAMGC_MODE", "off", 1);
    int proven = prove_run(wish->device, &wish->how, VRAMGC_VERSION, &python);
    free(preload);
    return statuses[proven];
}

int prove_main(int argc, char **argv) {
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = prove_flags,
                        .flag_count = prove_flag_count,
                        .command = "prove",
                        .next = 1};
    struct wish wish = {.how.form = FORM_USUAL, .device = -1, .instead = FLAG_HELP};
    int flag;
    while ((flag = args_next(&args)) >= 0)
        if (flag == FLAG_HELP)
            return STATUS_HELP;
        else if (!take(&wish, flag, args.value))
            return STATUS_USAGE;
    if (flag == ARGS_BAD)
        return STATUS_USAGE;
    if (args.operand_count > 0) {
        complain("prove takes no words: %s; see `vramgc help prove`", argv[0]);
        return STATUS_USAGE;
    }
    if (wish.instead == FLAG_FORGET)
        return told(proof_forget(), "nothing was proven here");
    if (wish.instead != FLAG_HELP)
        return told(proof_show(wish.instead == FLAG_SHARE), "nothing was proven here");
    return prove(&wish);
}
