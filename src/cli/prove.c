/* prove.c: the command `vramgc prove`. What it does lies in the room `prove`; here is only what is
 * typed. */
#include "cli/cli.h"
#include "cli/preload.h"
#include "cli/prove_words.h"
#include "base/parse.h"
#include "prove/proof_file.h"
#include "prove/prove_card.h"

#include <limits.h>
#include <stdlib.h>

static struct {
    bool quick, full, show, share, forget, verbose;
    int device;
    const char *python;
} wish = {.device = -1};

static bool take_device(const struct args *args) {
    uint64_t number;
    if (parse_count(args->value, &number) && number < 1024) {
        wish.device = (int)number;
        return true;
    }
    complain("--device %s is not the number of a device", args->value);
    return false;
}

static int told(size_t count) {
    if (count == 0)
        complain("nothing was proven here");
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
static int prove(void) {
    char *preload = wish.python ? preload_for() : NULL;
    struct python python = {.interpreter = wish.python, .preload = preload};
    if (wish.python && !preload)
        return PROVE_NOT_RUN;
    check_form = wish.quick ? FORM_QUICK : wish.full ? FORM_FULL : FORM_USUAL;
    setenv("VRAMGC_MODE", "off", 1);
    int status = prove_run(wish.device, VRAMGC_VERSION, &python, prove_words(wish.verbose));
    free(preload);
    return status;
}

static int prove_main(struct args *args) {
    (void)args;
    if (wish.forget)
        return told(proof_forget());
    if (wish.share || (wish.show && wish.verbose))
        return told(proof_show(wish.share));
    return wish.show ? told(proof_each(prove_words_show, false)) : prove();
}

static const struct flag flags[] = {
    {"quick", 0, NULL, "ten seconds at most: what the page engine relies on, and a short soak",
     .on = &wish.quick},
    {"full", 0, NULL, "some minutes: a long soak, and costs of many samples", .on = &wish.full},
    {"device", 0, "N", "only this one, as the driver numbers them (default: all)",
     .take = take_device},
    {"python", 0, "PYTHON",
     "besides, soak the PyTorch of this interpreter (your web UI's) by each of its allocators",
     .value = &wish.python},
    {"show", 0, NULL, "tell what was proven before; touch no card", .on = &wish.show},
    {"share", 0, NULL,
     "print all of that for a bug tracker, without what tells your card from others",
     .on = &wish.share},
    {"verbose", 'v', NULL, "each test, how long it took and what was seen; with --show all of it",
     .on = &wish.verbose},
    {"forget", 0, NULL, "remove what was proven: mode auto is flush again", .on = &wish.forget},
};

const struct command prove_command = {
    "prove",
    GROUP_START,
    "",
    "test your card, once, for a minute; first stop your web UI",
    "Where the card passes, mode auto is compact from then on. First stop what uses the card, such "
    "as your web UI: its memory is full for a moment. The card "
    "is left as it was; Ctrl-C ends the test, and nothing is written.\n"
    "It asks the driver all that mode compact relies on, moves pages under running work, measures "
    "what calls cost, and writes the answer to ~/.local/state/vramgc (XDG_STATE_HOME). Do it again "
    "after an update of the driver.\n"
    "Exit status 1 when the card does not bear it, 3 when it could not be tried.\n",
    FLAGS(flags),
    .main = prove_main,
};
