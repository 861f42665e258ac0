/* top_screen.c: see top_screen.h. The terminal must be as it was before, however this ends; it must
 * send a program nothing that was not asked for just before. */
#include "cli/top_screen.h"

#ifdef VRAMGC_CURSES

#include "show/summary_lines.h"
#include "read/stats_file.h"
#include "base/base.h"
#include "base/process_stat.h"
#include "base/text.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAIR_LIVE = 1, PAIR_IDLE, PAIR_CODE, PAIR_OTHERS };
enum { ESCAPE = 27, DELETE = 127 };
enum { KEYS_WIDTH = 73 };    /* in fewer columns keys are told in short */
enum { MOST_HALVINGS = 10 }; /* of ten hours half a minute */
enum { DETAILS = 5 }; /* lines of a chosen program, its row among them, that are of most use */

static const char *const help_lines[] = {
#define LINE(text) text,
#include "cli/top_help.def"
#undef LINE
};

/* ---- ending a program: SIGTERM to that one process of this user, and to no other that has its
 * number by then; where it stays, SIGKILL in the same way ---- */

struct top_process {
    uint64_t pid, start_ticks;
};

struct top_end {
    bool asks, kills;
    struct top_process process;
    struct top_process *told; /* have got SIGTERM */
    size_t told_count;
    char name[64];
    char said[128]; /* until the next key; empty: nothing */
};

static bool is_own(uint64_t pid) {
    char path[40];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%lu", pid);
    return stat(path, &status) == 0 && status.st_uid == geteuid();
}

static void say_of_process(struct top_end *end, const char *words) {
    snprintf(end->said, sizeof end->said, "%lu %s", end->process.pid, words);
}

static const struct running_process *chosen_of(const struct top_view *view) {
    for (size_t i = 0; i < view->running.count; i++)
        if (view->running.list[i].pid == view->chosen_pid)
            return &view->running.list[i];
    return NULL;
}

static struct top_process process_that_runs(const struct running_process *running) {
    return (struct top_process){running->pid, running->record->file->process_start};
}

static bool got_sigterm(const struct top_end *end, struct top_process process) {
    for (size_t i = 0; i < end->told_count; i++)
        if (end->told[i].pid == process.pid && end->told[i].start_ticks == process.start_ticks)
            return true;
    return false;
}

/* Without memory it gets SIGTERM again. */
static void note_told(struct top_end *end) {
    struct top_process *told = realloc(end->told, (end->told_count + 1) * sizeof *told);
    if (!told)
        return;
    end->told = told;
    end->told[end->told_count++] = end->process;
}

/* The chosen program has got SIGTERM: next is SIGKILL. */
static bool top_end_kills(const struct top_end *end, const struct top_view *view) {
    const struct running_process *chosen = chosen_of(view);
    return chosen && got_sigterm(end, process_that_runs(chosen));
}

/* For the chosen program; of none, and of another user's, it says so. */
static void top_end_ask(struct top_end *end, const struct top_view *view) {
    const struct running_process *chosen = chosen_of(view);
    *end->said = 0;
    if (!chosen) {
        text_copy(end->said, sizeof end->said, "up, down: first choose which program ends");
        return;
    }
    struct text name = TEXT_IN(end->name);
    program_name(chosen->record->file, &name);
    end->process = process_that_runs(chosen);
    end->kills = got_sigterm(end, end->process);
    end->asks = is_own(end->process.pid);
    if (!end->asks)
        say_of_process(end, process_start_ticks(end->process.pid) ? "is another user's"
                                                                  : "has ended already");
}

static void send_signal(struct top_end *end) {
    bool lives = process_start_ticks(end->process.pid) == end->process.start_ticks;
    if (!lives || kill((pid_t)end->process.pid, end->kills ? SIGKILL : SIGTERM) != 0) {
        say_of_process(end, lives && errno != ESRCH ? "cannot be ended" : "has ended already");
    } else if (end->kills) {
        say_of_process(end, "has got SIGKILL");
    } else {
        say_of_process(end, "has got SIGTERM");
        note_told(end);
    }
}

/* y ends it, any other key does not. */
static void top_end_take(struct top_end *end, int key) {
    end->asks = false;
    if (key == 'y')
        send_signal(end);
    else
        say_of_process(end, "goes on");
}

/* The question, or what is said, in so many columns; empty: nothing. */
static void top_end_words(const struct top_end *end, size_t columns, struct text *out) {
    const char *question = end->kills ? "? y = SIGKILL " : "? y = SIGTERM ";
    if (*end->said)
        text_format(out, " %s ", end->said);
    if (!end->asks)
        return;
    text_format(out, " %s %lu ", end->kills ? "kill" : "end", end->process.pid);
    size_t taken = out->length + strlen(question);
    text_add_n(out, end->name, bytes_of_columns(end->name, columns > taken ? columns - taken : 0));
    text_add(out, question);
}

/* ---- the screen ---- */

struct screen {
    struct top_view *view;
    struct page page;
    int first; /* so many lines below the title are not shown */
    bool helps, colours, ends;
    bool types;   /* the word of the filter */
    bool follows; /* the chosen program is brought into view */
    struct top_end end;
};

const char *top_screen_missing(void) {
    return NULL;
}

/* ---- drawing ---- */

static int clamp(int value, int highest) {
    return value < 0 || highest < 0 ? 0 : value > highest ? highest : value;
}

static attr_t look_of(const struct screen *screen, char letter) {
    static const struct {
        char letter;
        short pair;
    } looks[] = {
        {'#', PAIR_LIVE}, {'^', PAIR_LIVE}, {':', PAIR_IDLE}, {'+', PAIR_CODE}, {'o', PAIR_OTHERS}};
    for (size_t i = 0; screen->colours && i < ARRAY_LENGTH(looks); i++)
        if (looks[i].letter == letter)
            return (attr_t)COLOR_PAIR(looks[i].pair) | (letter == '^' ? A_DIM : A_NORMAL);
    return A_NORMAL;
}

static attr_t style_of(enum page_style style) {
    return style == PAGE_TITLE     ? A_BOLD
           : style == PAGE_HEADING ? A_UNDERLINE
           : style == PAGE_CHOSEN  ? A_REVERSE
                                   : A_NORMAL;
}

static void draw_line(const struct screen *screen, int row, const struct page_line *line) {
    size_t length = bytes_of_columns(line->text, (size_t)COLS);
    size_t text = line->bar_begin ? min_u64(line->bar_begin, length) : length;
    attrset((int)style_of(line->style));
    mvaddnstr(row, 0, line->text, (int)text);
    for (; text < length && strchr(BAR_LETTERS, line->text[text]); text++) {
        attrset((int)look_of(screen, line->text[text]));
        addch((chtype)(unsigned char)line->text[text]);
    }
    attrset(A_NORMAL);
    addnstr(line->text + text, (int)(length - text)); /* its edge, and words beside it */
}

/* Of which not even the bar is on the screen. */
static int cards_below(const struct screen *screen) {
    if (!screen->view->glance)
        return 0;
    int end = (int)(screen->page.glance + screen->view->cards.count);
    return clamp(end - screen->first - (LINES - 1), (int)screen->view->cards.count);
}

/* Says how to reach what is below the screen. */
static void add_more(const struct screen *screen, struct text *text, const char *keys) {
    int below = cards_below(screen);
    if (below > 0)
        text_format(text, "PgDn: %d card%s", below, below == 1 ? "" : "s");
    else if ((int)screen->page.count > LINES - 1)
        text_add(text, keys);
}

static void add_short_keys(const struct screen *screen, struct text *text) {
    const struct top_view *view = screen->view;
    text_add(text, " q quit  ");
    if (cards_below(screen) == 0)
        text_format(text, "s %s  ", top_sort_name(view->sort));
    size_t before = text->length;
    add_more(screen, text, "PgDn");
    text_format(text, "%s%s  ? help ", text->length > before ? "  " : "",
                view->chosen_pid || *view->filter ? "Esc back" : "/ word");
}

static void add_keys(const struct screen *screen, struct text *text) {
    const struct top_view *view = screen->view;
    text_format(text, " q quit   s sort: %-4s   /%s   %s   ? help   ", top_sort_name(view->sort),
                *view->filter ? view->filter : " word",
                view->chosen_pid
                    ? top_end_kills(&screen->end, view) ? "T kill  Esc close" : "T end   Esc close"
                : *view->filter ? "Esc show all"
                                : "up down choose");
    add_more(screen, text, "PgUp PgDn ");
}

static void draw_bottom(const struct screen *screen) {
    TEXT_OVER(text, line, PAGE_WIDEST + 1);
    top_end_words(&screen->end, (size_t)COLS - 1, &text);
    if (text.length > 0)
        ;
    else if (screen->types)
        text_format(&text, " /%s_ ", screen->view->filter);
    else if (screen->helps)
        text_add(&text, " q or any other key ends the help ");
    else if (COLS < KEYS_WIDTH)
        add_short_keys(screen, &text);
    else
        add_keys(screen, &text);
    attrset(A_REVERSE);
    mvaddnstr(LINES - 1, 0, line, COLS - 1);
    attrset(A_NORMAL);
}

static bool some_is_busy(const struct cards *cards) {
    bool some = false;
    for (size_t i = 0; i < cards->count; i++)
        some = some || (cards->list[i].sensors.known && cards->list[i].sensors.busy_percent >= 0);
    return some;
}

/* The latest minute has the lines that nothing else needs, else a few before what happened last,
 * and goes before a program does. One of them, where there is another, is of how busy the card
 * was. */
static void give_picture_rows(struct screen *screen, int rows) {
    enum { USUAL_EVENTS = 8 };
    struct top_view *view = screen->view;
    view->history_rows = 1;
    view->busy_rows = false;
    view->most_events = USUAL_EVENTS;
    top_page(&screen->page, view, COLS);
    int pictures = (int)screen->page.pictures;
    if (pictures == 0)
        return;
    int spare = 1 + (rows - (int)screen->page.count) / pictures;
    int before_events = 1 + (rows - (int)screen->page.cards_end + 1) / pictures;
    int busy = some_is_busy(&view->cards) ? 1 : 0;
    int height = before_events < HISTORY_ROWS + busy ? before_events : HISTORY_ROWS + busy;
    height = clamp(height > spare ? height : spare, HISTORY_MOST_ROWS + busy);
    view->busy_rows = busy && height > HISTORY_ROWS;
    height -= view->busy_rows ? 1 : 0;
    view->history_rows = height >= HISTORY_LEAST_ROWS ? (size_t)height : 0;
}

/* The row of the program that was just chosen is seen, and the first of its details. What happened
 * last fills the screen, and has a few lines beyond it where there is no room. */
static void lay_out(struct screen *screen, int rows) {
    enum { LEAST_EVENTS = 4, FEW_ROWS = 20 };
    struct top_view *view = screen->view;
    view->low = rows < FEW_ROWS;
    view->glance = false;
    give_picture_rows(screen, rows);
    view->most_events = 0;
    top_page(&screen->page, view, COLS);
    view->glance =
        view->cards.count > 1 && !top_found(view) && (int)screen->page.cards_end - 1 > rows;
    if (view->glance) {
        view->history_rows = 0;
        top_page(&screen->page, view, COLS);
    }
    int room = rows - (int)screen->page.count - 1;
    view->most_events = (size_t)(room > LEAST_EVENTS ? room : LEAST_EVENTS);
    top_page(&screen->page, view, COLS);
    if (screen->follows && (int)screen->page.chosen + DETAILS > rows)
        screen->first =
            clamp((int)screen->page.chosen + DETAILS - rows, (int)screen->page.chosen - 2);
    screen->follows = false;
}

static void draw(struct screen *screen) {
    int rows = LINES - 1;
    lay_out(screen, rows);
    screen->first = clamp(screen->first, (int)screen->page.count - rows);
    erase();
    for (int i = 0; screen->helps && i < (int)ARRAY_LENGTH(help_lines) && i < rows; i++)
        mvaddnstr(i, 0, help_lines[i], COLS - 1);
    for (int i = 0; !screen->helps && i < rows && screen->first + i < (int)screen->page.count; i++)
        draw_line(screen, i, &screen->page.lines[i > 0 ? screen->first + i : 0]);
    draw_bottom(screen);
    refresh();
}

/* ---- keys ---- */

static void take_letter(struct screen *screen, int key) {
    char *word = screen->view->filter;
    size_t length = strlen(word);
    if (key == ESCAPE)
        *word = 0;
    if (key == ESCAPE || key == '\n' || key == '\r' || key == KEY_ENTER)
        screen->types = false;
    else if ((key == KEY_BACKSPACE || key == DELETE || key == '\b') && length > 0)
        word[length - 1] = 0;
    else if (key >= ' ' && key < DELETE && length + 1 < sizeof screen->view->filter)
        word[length] = (char)key, word[length + 1] = 0;
}

static void take_key(struct screen *screen, int key) {
    if (key == ERR) /* none was pressed */
        return;
    uint64_t chosen = screen->view->chosen_pid;
    bool asked = screen->end.asks;
    if (key != KEY_RESIZE && !asked)
        *screen->end.said = 0;
    bool helped = screen->helps && key != KEY_RESIZE;
    screen->helps = screen->helps && !helped;
    if (asked && key != KEY_RESIZE)
        top_end_take(&screen->end, key);
    else if (screen->types)
        take_letter(screen, key);
    else if (helped)
        ;
    else if (key == 'q' || key == 'Q')
        screen->ends = true;
    else if (key == ESCAPE && chosen) /* the latest choice is undone first */
        screen->view->chosen_pid = 0;
    else if (key == ESCAPE)
        *screen->view->filter = 0;
    else if (key == 's')
        screen->view->sort = (screen->view->sort + 1) % TOP_SORTS;
    else if (key == 'T' || key == KEY_F(9))
        top_end_ask(&screen->end, screen->view);
    else if (key == '/')
        screen->types = true;
    else if (key == '?' || key == 'h')
        screen->helps = true;
    else if (key == '+' || key == '=')
        screen->view->halvings += screen->view->halvings < MOST_HALVINGS;
    else if (key == '-')
        screen->view->halvings -= screen->view->halvings > 0;
    else if (key == '0')
        screen->view->halvings = 0;
    else if (key == KEY_DOWN || key == 'j')
        top_choose(screen->view, 1);
    else if (key == KEY_UP || key == 'k')
        top_choose(screen->view, -1);
    else if (key == KEY_NPAGE)
        screen->first += LINES - 2;
    else if (key == KEY_PPAGE)
        screen->first -= LINES - 2;
    bool others = screen->types || chosen != screen->view->chosen_pid;
    if (key == KEY_RESIZE || others) /* what is of use is at the top */
        screen->first = 0, screen->follows = true;
}

/* Draws at each key, and reads anew when it is time. */
static void run(struct screen *screen, const uint64_t *pids, size_t pid_count, uint64_t every_ns,
                const volatile sig_atomic_t *stopped) {
    uint64_t next_ns = 0;
    while (!screen->ends && !*stopped) {
        uint64_t now_ns = clock_ns();
        if (now_ns >= next_ns) {
            top_refresh(screen->view, pids, pid_count);
            next_ns = now_ns + every_ns;
        }
        draw(screen);
        timeout((int)min_u64(minus_u64(next_ns, clock_ns()) / MILLISECOND_NS + 1, INT_MAX));
        int key = getch();
        bool typed = screen->types;
        take_key(screen, key);
        if (key == 's' || key == ESCAPE || (typed && key != ERR))
            next_ns = 0;
    }
}

/* ---- the terminal ---- */

static void choose_colours(struct screen *screen) {
    screen->colours = terminal_of(stdout).colours && has_colors() && start_color() == OK;
    if (!screen->colours)
        return;
    short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
    init_pair(PAIR_LIVE, COLOR_GREEN, background);
    init_pair(PAIR_IDLE, COLOR_YELLOW, background);
    init_pair(PAIR_CODE, COLOR_CYAN, background);
    init_pair(PAIR_OTHERS, COLOR_MAGENTA, background);
}

/* The font of Linux's console has two heights of them. */
static bool knows_blocks(void) {
    const char *kind = getenv("TERM");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 && kind && strcmp(kind, "linux") != 0;
}

bool top_screen_show(struct top_view *view, const uint64_t *pids, size_t pid_count,
                     uint64_t every_ns, const volatile sig_atomic_t *stopped) {
    struct screen screen = {.view = view};
    setlocale(LC_CTYPE, "");
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    const char *to_a_place = terminal ? tigetstr("cup") : NULL; /* (char *)-1: no such thing */
    if (!to_a_place || to_a_place == (const char *)-1) {
        if (terminal)
            delscreen(terminal);
        return false;
    }
    choose_colours(&screen);
    view->blocks = knows_blocks();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    run(&screen, pids, pid_count, every_ns, stopped);
    endwin();
    delscreen(terminal);
    free(screen.end.told);
    top_free(view, &screen.page);
    return true;
}

#else

const char *top_screen_missing(void) {
    return "this vramgc was built without ncurses; --once works without";
}

bool top_screen_show(struct top_view *view, const uint64_t *pids, size_t pid_count,
                     uint64_t every_ns, const volatile sig_atomic_t *stopped) {
    (void)view, (void)pids, (void)pid_count, (void)every_ns, (void)stopped;
    return false;
}

#endif
