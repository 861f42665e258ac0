/* prove.c: the command `vramgc prove`: what is typed, and what it says, for people who have a web
 * UI and a card. What it does lies in the room `prove`. What came of it is told from the proof's
 * file alone, so that --show says the same later. */
#include "base/clean_text.h"
#include "base/proof.h"
#include "base/parse.h"
#include "cli/cli.h"
#include "prove/prove_card.h"
#include "read/complain.h"
#include "show/summary_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROW_INDENT = 16 };

static struct {
    bool quick, full, show, share, forget, verbose;
    int device;
    size_t row;
} self = {.device = -1};

/* --- while it runs --- */

static void words_begin(int device, const struct prove_card *card) {
    static const char *const lengths[] = {"ten seconds", "a minute", "some minutes"};
    char line[320], heading[16];
    struct text text = TEXT_IN(line);
    snprintf(heading, sizeof heading, "gpu%d", device);
    text_format(&text, "%s, ", card->name);
    text_add_bytes(&text, card->total_bytes);
    text_add(&text, ", driver ");
    driver_version_say_both(&text, card->key.cuda_version, card->key.version);
    if (self.verbose)
        text_format(&text, ", %s, %zu MiB free, engine %u", card->bus, card->free_bytes >> 20,
                    card->key.engine);
    summary_wrapped_at(stdout, 6, heading, line);
    if (card->display)
        printf("a monitor uses this card: %d MiB are left to it. The picture may stutter.\n",
               CARD_SPARE_MIB);
    printf("Testing takes about %s. Ctrl-C ends it, and nothing is changed.\n",
           lengths[check_form]);
    fflush(stdout);
    self.row = 0;
}

static void write_check(const char *name, const char *asked, const struct result *done) {
    static const char *const outcomes[] = {"passed", "FAILED", "left out",
                                           "not offered by this driver"};
    TEXT_OVER(text, line, SAID_BYTES + 64);
    if (!done) {
        text_format(&text, "  %s", name);
        summary_wrapped_at(stdout, ROW_INDENT, line, asked);
        return;
    }
    text_format(&text, "%s (", outcomes[done->outcome]);
    text_add_duration(&text, done->ns);
    text_format(&text, ")%s%s", *done->said ? ": " : "", done->said);
    summary_wrapped_at(stdout, ROW_INDENT, "", line);
}

static void words_row(const char *name, const char *asked, const struct result *done) {
    char line[96];
    self.row += !done;
    snprintf(line, sizeof line, "  test %zu: %s", self.row, asked);
    if (self.verbose)
        write_check(name, asked, done);
    else if (isatty(STDOUT_FILENO)) /* one line that changes */
        printf("\r%-78.78s\r", done ? "" : line);
    fflush(stdout);
}

static bool show_proof(const char *path, bool says_card);

static void words_end(const char *path) {
    if (isatty(STDOUT_FILENO) && !self.verbose)
        printf("\r%78s\r", "");
    show_proof(path, false);
}

static void words_not_tried(int device, const char *why, bool others_use_it) {
    char which[48] = "";
    if (device >= 0)
        snprintf(which, sizeof which, "gpu%d cannot be tried now: ", device);
    complain("%s%s. Nothing was tested. %s", which, why,
             others_use_it ? "Stop what uses the card (`vramgc top` shows it), and try again"
                           : "`vramgc doctor` looks for the reason");
}

/* --- what came of it, line by line of the file --- */

struct told {
    char name[96], memory[32], driver[64], made[128];
    size_t passed, failed, left_out;
    bool is_passed, waits, parks_not, old;
};

/* The rest of a line that begins with the word, or NULL. */
static const char *after_word(const char *line, const char *word) {
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

static bool is_row(const char *line) {
    return after_word(line, "check ") && !after_word(line, "check park:");
}

static void count_outcome(struct told *told, const char *line) {
    const char *outcome = strstr(line, ": ");
    if (!outcome)
        return;
    told->passed += after_word(outcome, ": passed") != NULL;
    told->failed += after_word(outcome, ": failed") != NULL;
    told->left_out += after_word(outcome, ": left out") || after_word(outcome, ": not offered");
}

static void note_line(struct told *told, const char *line) {
    const char *value;
    if ((value = after_word(line, "name ")))
        text_copy(told->name, sizeof told->name, value);
    else if ((value = after_word(line, "memory ")))
        text_copy(told->memory, sizeof told->memory, value);
    else if ((value = after_word(line, "driver ")))
        text_copy(told->driver, sizeof told->driver, value);
    else if ((value = after_word(line, "made ")))
        text_copy(told->made, sizeof told->made, value);
    else if ((value = after_word(line, "result ")))
        told->is_passed = strcmp(value, "passed") == 0;
    else if ((value = after_word(line, "unmap ")))
        told->waits = strcmp(value, PROOF_UNMAP_WAITS) == 0;
    else if ((value = after_word(line, "park ")))
        told->parks_not = strcmp(value, "passed") != 0 && strcmp(value, "not tried") != 0;
    else if ((value = after_word(line, "engine ")))
        told->old = !proof_is_of_ours(strtoul(value, NULL, 10));
    else if (is_row(line))
        count_outcome(told, line);
}

/* "check NAME: failed, N us: SAID", with what was asked. */
static void say_failed(const char *line) {
    const char *name = strchr(line, ' ') + 1, *said = strstr(line, " us: ");
    size_t length = strcspn(name, ":");
    const char *asked = "?";
    char text[1024];
    for (size_t i = 0; i < check_count; i++)
        if (strlen(check_table[i].name) == length &&
            strncmp(check_table[i].name, name, length) == 0)
            asked = check_table[i].asked;
    snprintf(text, sizeof text, "%.*s: %s%s%s", (int)length, name, asked, said ? ". Seen: " : "",
             said ? said + 5 : "");
    summary_wrapped(stdout, "FAILED", text);
}

static bool each_line(const char *path, struct told *told) {
    char line[1024];
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        clean_text(line, sizeof line);
        if (told)
            note_line(told, line);
        else if (is_row(line) && strstr(line, ": failed"))
            say_failed(line);
    }
    return in && fclose(in) == 0;
}

static void say_result(const struct told *told) {
    TEXT_OVER(text, line, 160);
    text_format(&text, "%zu of %zu tests passed%s.", told->passed, told->passed + told->failed,
                told->is_passed ? "" : ": this card does not support mode compact");
    if (told->left_out)
        text_format(&text, " %zu more %s not apply here.", told->left_out,
                    told->left_out == 1 ? "does" : "do");
    summary_wrapped(stdout, "RESULT", line);
}

static void say_meaning(const struct told *told) {
    if (told->is_passed)
        summary_wrapped(stdout, "MEANS",
                        "Mode auto is compact on this card from now on: idle memory goes back page "
                        "by page, 2 MiB each. After an update of the driver test again.");
    else
        summary_wrapped(stdout, "MEANS",
                        "Mode auto stays flush on this card: vramgc has PyTorch empty its cache, "
                        "which works on every card.");
    if (told->old)
        summary_wrapped(stdout, "NOTE", "Another vramgc made this test: it no longer counts.");
    if (told->waits)
        summary_wrapped(stdout, "NOTE",
                        "Unmapping waits for running kernels here, so idle memory goes back only "
                        "while the GPU has nothing to do.");
    if (told->parks_not)
        summary_wrapped(stdout, "NOTE",
                        "VRAMGC_PARK stays off: this driver cannot move a program off the card and "
                        "back.");
    if (strstr(told->made, "simulated"))
        summary_wrapped(stdout, "NOTE", "The card is simulated: times mean nothing.");
}

static bool show_proof(const char *path, bool says_card) {
    struct told told = {0};
    char line[384] = "";
    if (!each_line(path, &told))
        return false;
    if (says_card)
        snprintf(line, sizeof line, "%s, %s, driver %s, tested %s", told.name, told.memory,
                 told.driver, told.made);
    summary_wrapped(stdout, "CARD", line);
    say_result(&told);
    each_line(path, NULL);
    say_meaning(&told);
    summary_wrapped(stdout, "NEXT", told.old ? "vramgc prove" : "vramgc run ./webui.sh");
    if (!told.is_passed)
        summary_wrapped(stdout, "", "`vramgc prove --share` prints this for a bug tracker.");
    summary_wrapped(stdout, "Details", "vramgc prove --show --verbose");
    return true;
}

/* ---- the command ---- */

static bool take_device(const struct args *args) {
    uint64_t number;
    if (parse_count(args->value, &number) && number < 1024) {
        self.device = (int)number;
        return true;
    }
    complain("--device %s is not the number of a device", args->value);
    return false;
}

static int status_of_proofs(size_t count) {
    if (count == 0)
        complain("nothing was proven here");
    return count ? STATUS_FINE : STATUS_BAD_INPUT;
}

/* A library of ours that is preloaded here must stay out of it: this is the driver's own trial. */
static int prove_cards(void) {
    static const struct prove_telling telling = {words_begin, words_row, words_end,
                                                 words_not_tried};
    check_form = self.quick ? FORM_QUICK : self.full ? FORM_FULL : FORM_USUAL;
    setenv("VRAMGC_MODE", "off", 1);
    const struct prove_wish all = {.device = self.device, .park = true};
    return prove_run(&all, VRAMGC_VERSION, &telling);
}

static int prove_main(struct args *args) {
    (void)args;
    if (self.forget)
        return status_of_proofs(proof_forget());
    if (self.share || (self.show && self.verbose))
        return status_of_proofs(proof_show(self.share));
    return self.show ? status_of_proofs(proof_each(show_proof, true)) : prove_cards();
}

static const struct flag flags[] = {
    {"quick", 0, NULL, "ten seconds at most: what the page engine relies on, and a short soak",
     .on = &self.quick},
    {"full", 0, NULL, "some minutes: a long soak", .on = &self.full},
    {"device", 0, "N", "only this one, as the driver numbers them (default: all)",
     .take = take_device},
    {"show", 0, NULL, "tell what was proven before; touch no card", .on = &self.show},
    {"share", 0, NULL,
     "print all of that for a bug tracker, without what tells your card from others",
     .on = &self.share},
    {"verbose", 'v', NULL, "each test, how long it took and what was seen; with --show all of it",
     .on = &self.verbose},
    {"forget", 0, NULL, "remove what was proven: mode auto is flush again", .on = &self.forget},
};

const struct command prove_command = {
    "prove",
    GROUP_START,
    "",
    "test your card, once, for a minute; first stop your web UI",
    "Where the card passes, mode auto is compact from then on. First stop what uses the card, such "
    "as your web UI: its memory is full for a moment. The card "
    "is left as it was; Ctrl-C ends the test, and nothing is written.\n"
    "It asks the driver all that mode compact relies on, moves pages under running work, and "
    "writes the answer to ~/.local/state/vramgc (XDG_STATE_HOME). Do it again after an update of "
    "the "
    "driver.\n"
    "Exit status 1 when the card does not support it, 3 when it could not be tried.\n",
    FLAGS(flags),
    .main = prove_main,
};
