/* prove_words.c: what `vramgc prove` says, for people who have a web UI and a card. What came of it
 * is told from the proof's file alone, so that --show says the same later. */
#include "cli/prove_words.h"

#include "base/clean_text.h"
#include "base/proof.h"
#include "prove/proof_file.h"
#include "read/complain.h"
#include "show/summary_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROW_INDENT = 16 };

static struct {
    bool verbose;
    size_t row;
} self;

/* --- while it runs --- */

static void begin(int device, const struct card *card) {
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
        printf("a display hangs on this card: %d MiB are left to it. The picture may stutter.\n",
               CARD_SPARE_MIB);
    printf("Testing takes about %s. Ctrl-C ends it, and nothing is changed.\n",
           lengths[check_form]);
    fflush(stdout);
    self.row = 0;
}

/* On a terminal one line that changes. */
static void show_progress(const char *asked, const struct result *done) {
    char line[96];
    if (!isatty(STDOUT_FILENO))
        return;
    snprintf(line, sizeof line, "  test %zu: %s", self.row, asked);
    printf("\r%-78.78s\r", done ? "" : line);
}

static void write_row(const char *name, const char *asked, const struct result *done) {
    static const char *const outcomes[] = {"passed", "FAILED", "left out",
                                           "not offered by this driver"};
    char line[SAID_BYTES + 64];
    struct text text = TEXT_IN(line);
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

static void row(const char *name, const char *asked, const struct result *done) {
    self.row += !done;
    if (self.verbose)
        write_row(name, asked, done);
    else
        show_progress(asked, done);
    fflush(stdout);
}

static bool show(const char *path, bool says_card);

static void end(const char *path) {
    if (isatty(STDOUT_FILENO) && !self.verbose)
        printf("\r%78s\r", "");
    show(path, false);
}

static void not_tried(const char *why, bool others_use_it) {
    complain("%s. Nothing was tested. %s", why,
             others_use_it ? "Stop what uses the card (`vramgc top` shows it), and try again"
                           : "`vramgc doctor` looks for the reason");
}

/* --- what came of it, line by line of the file --- */

struct told {
    char name[96], memory[32], driver[64], made[128];
    size_t passed, failed, left_out;
    bool is_passed, waits, parks_not, old;
};

/* What stands behind the word, or NULL. */
static const char *behind(const char *line, const char *word) {
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

static bool is_row(const char *line) {
    return (behind(line, "check ") || behind(line, "python ")) && !behind(line, "check park:");
}

static void count(struct told *told, const char *line) {
    const char *outcome = strstr(line, ": ");
    if (!outcome)
        return;
    told->passed += behind(outcome, ": passed") != NULL;
    told->failed += behind(outcome, ": failed") != NULL;
    told->left_out += behind(outcome, ": left out") || behind(outcome, ": not offered");
}

static void note(struct told *told, const char *line) {
    const char *value;
    if ((value = behind(line, "name ")))
        text_copy(told->name, sizeof told->name, value);
    else if ((value = behind(line, "memory ")))
        text_copy(told->memory, sizeof told->memory, value);
    else if ((value = behind(line, "driver ")))
        text_copy(told->driver, sizeof told->driver, value);
    else if ((value = behind(line, "made ")))
        text_copy(told->made, sizeof told->made, value);
    else if ((value = behind(line, "result ")))
        told->is_passed = strcmp(value, "passed") == 0;
    else if ((value = behind(line, "unmap ")))
        told->waits = strcmp(value, PROOF_UNMAP_WAITS) == 0;
    else if ((value = behind(line, "park ")))
        told->parks_not = strcmp(value, "passed") != 0 && strcmp(value, "not tried") != 0;
    else if ((value = behind(line, "engine ")))
        told->old = !proof_is_of_ours(strtoul(value, NULL, 10));
    else if (is_row(line))
        count(told, line);
}

/* "check NAME: failed, N us: SAID", with what was asked. */
static void say_failed(const char *line) {
    const char *name = strchr(line, ' ') + 1, *said = strstr(line, " us: ");
    size_t length = strcspn(name, ":");
    const char *asked = "PyTorch at work, by this of its allocators";
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
            note(told, line);
        else if (is_row(line) && strstr(line, ": failed"))
            say_failed(line);
    }
    return in && fclose(in) == 0;
}

static void say_count(const struct told *told) {
    char line[160];
    struct text text = TEXT_IN(line);
    text_format(&text, "%zu of %zu tests passed%s.", told->passed, told->passed + told->failed,
                told->is_passed ? "" : ": this card does not bear mode compact");
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

static void say_next(const struct told *told) {
    summary_wrapped(stdout, "NEXT", told->old ? "vramgc prove" : "vramgc run ./webui.sh");
    if (!told->is_passed)
        summary_wrapped(stdout, "", "`vramgc prove --share` prints this for a bug tracker.");
    summary_wrapped(stdout, "Details", "vramgc prove --show --verbose");
}

static bool show(const char *path, bool says_card) {
    struct told told = {0};
    char line[384] = "";
    if (!each_line(path, &told))
        return false;
    if (says_card)
        snprintf(line, sizeof line, "%s, %s, driver %s, tested %s", told.name, told.memory,
                 told.driver, told.made);
    summary_wrapped(stdout, "CARD", line);
    say_count(&told);
    each_line(path, NULL);
    say_meaning(&told);
    say_next(&told);
    return true;
}

bool prove_words_show(const char *path, bool unused) {
    (void)unused;
    return show(path, true);
}

const struct prove_telling *prove_words(bool verbose) {
    static const struct prove_telling telling = {begin, row, end, not_tried};
    self.verbose = verbose;
    return &telling;
}
