/* prove_first.c: see prove_first.h. The test runs in a process of its own, which is ended when its
 * time is up: whatever it was at, the driver takes back what it had, and no half proof is left.
 *
 *     each card has an answer -> start      one has none: take the turn -> test it -> start
 *                                           another has the turn: wait for it, look again
 *     the test was late once -> start, and say so: it would be late again */
#include "cli/prove_first.h"

#include "cli/cli.h"
#include "base/file.h"
#include "base/nvml.h"
#include "base/parse.h"
#include "base/state_folder.h"
#include "base/text.h"
#include "prove/prove_card.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* The quick form takes 3.6 s on the simulated card, and 4.3 on an H200. */
#define LIMIT_NS (5 * SECOND_NS)
#define PAUSE_NS (5 * MILLISECOND_NS)

static struct {
    struct prove_wish wish;
    struct proof_key unproven; /* a card without an answer */
    char late[PROOF_DRIVER_BYTES + 32];
    struct shared { /* with the process that tests */
        char why[128];
        bool said; /* that it tests */
    } * shared;
    volatile sig_atomic_t skipped;
} self = {.wish = {.device = -1, .only_unproven = true}};

/* A test of this may run on a busy machine. */
static uint64_t test_limit_ns(void) {
    return parse_for_test("VRAMGC_TEST_PROOF_LIMIT", parse_duration, LIMIT_NS);
}

/* NVML tells without a context, in some milliseconds. A divided card goes by other names. */
static bool card_is_unproven(const struct nvml *nvml, unsigned number, int version) {
    nvml_card card = nvml_by_number(nvml, number);
    char name[PROOF_CARD_BYTES];
    if (nvml_is_divided(nvml, card) || !nvml_uuid(nvml, card, name, sizeof name))
        return false;
    prove_key(name, version, &self.unproven);
    return !prove_is_answered(&self.unproven, &self.wish);
}

static bool a_card_is_unproven(void) {
    struct nvml nvml;
    int version = 0;
    bool found = false;
    if (driver_load() || cu.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
        !nvml_open(&nvml, dlsym))
        return false;
    for (unsigned i = 0; !found && i < nvml_count(&nvml); i++)
        found = card_is_unproven(&nvml, i, version);
    nvml_close(&nvml);
    return found;
}

/* Where mode auto is flush in any case. */
static bool test_is_of_no_use(const struct options *options) {
    struct rlimit addresses;
    bool limited = getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
    return options->mode != MODE_AUTO || options->prove == PROVE_OFF || limited ||
           access("/dev/dxg", F_OK) == 0;
}

/* Two that start at once make one test; the lock goes with its process. -1: it cannot be had. */
static int take_test_turn(uint64_t end_ns) {
    char path[512];
    if (!state_folder(path, sizeof path) || !state_folder_make(path) ||
        !state_folder_is_trusted(path))
        return -1;
    struct text text = {path, sizeof path, strlen(path)};
    text_add(&text, "/testing");
    int fd = file_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (clock_ns() > end_ns)
            return -1; /* nothing else is opened here; it is closed by the start of the program */
        sleep_ns(PAUSE_NS);
    }
    return fd;
}

/* --- the process that tests --- */

/* Not sooner: the card may be busy, or not for this program. */
static void say_that_it_tests(int device, const struct prove_card *card) {
    (void)device;
    (void)card;
    if (!self.shared->said)
        fprintf(stderr, "vramgc: testing the card, once, 5 s; Ctrl-C skips it%s",
                isatty(STDERR_FILENO) ? "" : "\n");
    self.shared->said = true;
}

static void row_silent(const char *name, const char *asked, const struct result *done) {
    (void)name, (void)asked, (void)done;
}

static void keep_why(int device, const char *why, bool others_use_it) {
    (void)device;
    (void)others_use_it;
    text_copy(self.shared->why, sizeof self.shared->why, why);
}

static void test_cards(const struct job *job) {
    static const struct prove_telling telling = {
        .begin = say_that_it_tests, .row = row_silent, .not_tried = keep_why};
    setenv("VRAMGC_MODE", "off", 1);
    check_form = FORM_QUICK;
    prove_run(job->with, VRAMGC_VERSION, &telling);
}

/* --- the process that waits --- */

static void skip_test(int signal) {
    (void)signal;
    self.skipped = true;
}

static void await_test(pid_t child, uint64_t end_ns) {
    bool ended = false;
    while (!self.skipped && !ended && clock_ns() < end_ns) {
        ended = waitpid(child, NULL, WNOHANG) != 0;
        if (!ended)
            sleep_ns(PAUSE_NS);
    }
    if (ended)
        return;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    text_copy(self.shared->why, sizeof self.shared->why,
              self.skipped ? "Ctrl-C skipped the test of the card"
                           : "the card's test took over 5 s: run `vramgc prove`, a minute");
}

static bool test_was_late(int turn) {
    char before[sizeof self.late] = "";
    return pread(turn, before, sizeof before - 1, 0) > 0 && strcmp(before, self.late) == 0;
}

/* Where it cannot be noted the next start tries again. */
static void note_late_test(int turn) {
    bool late = !prove_is_answered(&self.unproven, &self.wish) && !self.skipped;
    size_t length = late ? strlen(self.late) : 0;
    ssize_t written = ftruncate(turn, 0) == 0 ? pwrite(turn, self.late, length, 0) : -1;
    (void)written;
}

static void test_card_first(int turn, uint64_t end_ns) {
    struct sigaction skipping = {.sa_handler = skip_test}, before;
    sigaction(SIGINT, &skipping, &before);
    pid_t child = child_start(&(struct job){.run = test_cards, .with = &self.wish});
    if (child > 0)
        await_test(child, end_ns);
    sigaction(SIGINT, &before, NULL);
    if (clock_ns() >= end_ns)
        note_late_test(turn);
    if (self.shared->said && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%72s\r", "");
}

const char *prove_first_found(void) {
    bool made = self.shared && self.shared != MAP_FAILED && self.shared->said;
    enum proof_state state = made ? proof_look(&self.unproven).state : PROOF_NONE;
    return state == PROOF_PASSED   ? "the card passed its test: on, in mode compact"
           : state == PROOF_FAILED ? "the card failed its test: on, in mode flush"
                                   : "on";
}

const char *prove_first(const struct options *options) {
    self.wish.park = options->park > 0;
    if (test_is_of_no_use(options) || !a_card_is_unproven())
        return "";
    uint64_t end_ns = clock_ns() + test_limit_ns();
    int turn = take_test_turn(end_ns);
    self.shared =
        mmap(NULL, sizeof *self.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (turn < 0 || self.shared == MAP_FAILED || !a_card_is_unproven()) /* another has tested it */
        return "";
    struct text late = TEXT_IN(self.late);
    text_format(&late, "%s, engine %u", self.unproven.driver, self.unproven.engine);
    if (test_was_late(turn))
        text_copy(self.shared->why, sizeof self.shared->why,
                  "the card's test took over 5 s before: run `vramgc prove`, a minute");
    else
        test_card_first(turn, clock_ns() + test_limit_ns());
    close(turn);
    return self.shared->why;
}
