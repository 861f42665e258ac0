/* top.c: the command `vramgc top`: who has the memory of the cards now. It reads what the programs
 * write down anyway, and sends them nothing but a signal that was asked for. */
#include "cli/cli.h"
#include "show/summary_lines.h"
#include "show/top_page.h"
#include "cli/top_screen.h"
#include "read/stats_file.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SORTS "held|live|idle|pid"           /* as enum top_sort */
enum { MOST_PIDS = 64, EVENTS_AT_ONCE = 8 }; /* a screen has 24 lines */

static struct {
    bool once;
    uint64_t every_ns;
    const char *sort;
    uint64_t pids[MOST_PIDS];
    size_t pid_count;
    const char *filter;
} request = {.every_ns = SECOND_NS};

/* ---- what is asked for ---- */

static struct top_view first_view(size_t most_events) {
    struct top_view view = {.sort = request.sort ? (enum top_sort)parse_choice(request.sort, SORTS)
                                                 : TOP_BY_HELD,
                            .most_events = most_events,
                            .history_rows = HISTORY_ROWS};
    text_copy(view.filter, sizeof view.filter, request.filter ? request.filter : "");
    return view;
}

/* ---- --once ---- */

/* Its status is as grep's: 1 where it was asked for some, and there is none. */
static int show_once(void) {
    struct top_view view = first_view(EVENTS_AT_ONCE);
    struct page page = {0};
    view.whole = true;
    top_refresh(&view, request.pids, request.pid_count);
    top_page(&page, &view, terminal_of(stdout).columns);
    for (size_t i = 0; i < page.count; i++) {
        size_t length = strlen(page.lines[i].text);
        while (length > 0 && page.lines[i].text[length - 1] == ' ')
            length--;
        printf("%.*s\n", (int)length, page.lines[i].text);
    }
    bool none = view.some_only && view.running.count == 0;
    top_free(&view, &page);
    return none ? STATUS_BAD_INPUT : STATUS_FINE;
}

/* ---- live ---- */

static int show_live(void) {
    struct top_view view = first_view(0);
    const volatile sig_atomic_t *stopped = stop_catch();
    if (top_screen_missing()) {
        complain("%s", top_screen_missing());
    } else if (top_screen_show(&view, request.pids, request.pid_count, request.every_ns, stopped)) {
        stop_end();
        return STATUS_FINE;
    } else {
        complain("this terminal (TERM=%s) cannot show it; --once works everywhere",
                 getenv("TERM") ? getenv("TERM") : "");
    }
    return STATUS_BAD_INPUT;
}

/* ---- the command line ---- */

/* Numbers, and a word. */
static bool take_operands(char *const *operands, int count) {
    for (int i = 0; i < count; i++) {
        if (request.pid_count < MOST_PIDS &&
            parse_count(operands[i], &request.pids[request.pid_count])) {
            request.pid_count++;
        } else if (request.filter) {
            complain("%s: one word is enough, beside numbers of processes", operands[i]);
            return false;
        } else {
            request.filter = operands[i];
        }
    }
    return true;
}

static int top_main(struct args *args) {
    if (!take_operands(args->argv, args->operand_count))
        return STATUS_USAGE;
    if (request.once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return show_once();
    return show_live();
}

static const struct flag flags[] = {
    {"once", '1', NULL, "one screen as text; so it is where no terminal is", .on = &request.once},
    {"every", 0, "DURATION", "how often, 100ms or more; default: 1s",
     .every_ns = &request.every_ns},
    {"sort", 0, SORTS, "which program comes first; default: held", .value = &request.sort},
};

const struct command top_command = {
    "top",
    GROUP_LOOK,
    "[PID...] [WORD]",
    "who has the memory of your cards now, live",
    "Programs that run under vramgc are found by their statistics files; with PID, or a "
    "WORD of their command or folder, only these are shown. It draws the latest minute of each "
    "card, and says how busy and hot it is where the driver's NVML tells. Cards stand by their "
    "numbers, the programs of each are sorted. Cards without the WORD have a line each, below the "
    "others. The sum of a card is its programs, others, "
    "the driver and what is free. Keys: q, s "
    "(sort), / (a word), arrows (details of one program: whose its live memory is, its whole run), "
    "T or F9 (ends that program: it asks, and y sends SIGTERM. Where the program stays, T "
    "asks next for SIGKILL), Esc (back), ? (help). Without a terminal "
    "it is one screen of text, as with --once, which ends with 1 where none of those asked for "
    "runs.\n",
    FLAGS(flags),
    .main = top_main,
};
