/* top_view.h: which programs and cards `vramgc top` shows, in which order, and what was seen of
 * them in the latest minute or two, from their own timelines and by top itself since it began.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/cards.h"
#include "base/text.h"

/* ---- the latest minute ---- */

/* A column for each second: a minute in 80 columns, more in more of them; as little of 24 lines as
 * shows a curve, or more. */
enum { HISTORY_SECONDS = 60, HISTORY_MOST_SECONDS = 145 };
enum { HISTORY_LEAST_ROWS = 2, HISTORY_ROWS = 4, HISTORY_MOST_ROWS = 20 };

/* A card from its bottom up, as its bar has it from the left: # : + o -; and ^ for what was live
 * for a part of the time. */
enum { HISTORY_MEAN, HISTORY_LIVE, HISTORY_IDLE, HISTORY_LIBS, HISTORY_OTHERS, HISTORY_DRIVER };
enum { HISTORY_PARTS = HISTORY_DRIVER + 1 };

struct history_second {
    uint64_t second;              /* of CLOCK_MONOTONIC; 0: nothing is known */
    uint64_t tops[HISTORY_PARTS]; /* each part's, with all below it; others: at a look only */
    int busy;                     /* percent of the card's time, and 1; 0: not known */
};

struct top_history {
    size_t count;
    struct history_card {
        char bus_id[16];
        uint64_t looked;                     /* second of the latest look; 0: there was none */
        uint64_t others_bytes, driver_bytes; /* then */
        int busy;                            /* then, as in a second */
        bool read_again;                     /* the programs are others now */
        struct history_second of[HISTORY_MOST_SECONDS];
    } cards[VRAMGC_MAX_DEVICES];
};

/* The size of a picture: so many seconds, in as many columns or fewer; how much memory is as high.
 */
struct history_size {
    size_t rows, columns, seconds;
    uint64_t top_bytes;
};

/* How much memory a picture of the card is best as high as: the card's, its half, a quarter, ...:
 * the least that no longer picture would exceed, so that it seldom changes. */
uint64_t history_top_bytes(const struct top_history *history, const struct card *card);

/* A row of the card's picture, the highest first, in the signs of its bar. False: no program
 * uses the card, or it is not known how large it is. */
bool history_row(const struct top_history *history, const struct card *card, size_t row,
                 struct history_size size, char *out);

/* How busy the card was in the columns of its picture: blocks of eight heights; not blocks: digits,
 * tens of percent. False: it is not known now. */
bool history_busy_row(const struct top_history *history, const struct card *card,
                      struct history_size size, bool blocks, struct text *out);

/* All rows, one after another, of a program on its device of that index. */
void history_of_program(const struct vramgc_file *file, size_t index, struct history_size size,
                        char *out);

/* ---- which programs, in which order ---- */

enum top_sort { TOP_BY_HELD, TOP_BY_LIVE, TOP_BY_IDLE, TOP_BY_PID, TOP_SORTS };

/* "held", "live", "idle", "pid". */
const char *top_sort_name(enum top_sort sort);

struct top_view {
    struct running running;
    struct cards cards;
    enum top_sort sort;
    uint64_t chosen_pid; /* its details are shown; 0: none */
    unsigned halvings;   /* so often its picture was halved: it begins with the run, or later */
    bool some_only;      /* others may run */
    bool all_cards;      /* also those that no program uses */
    size_t most_events;
    size_t history_rows; /* of the latest minute; 0: none is drawn */
    bool busy_rows;      /* below the latest minute how busy the card was in it */
    bool blocks;         /* the terminal knows blocks of eight heights */
    bool glance;         /* all cards come first, in a line each */
    bool low;            /* a terminal of few lines: what another line says, too, is left out */
    bool whole;          /* nothing is cut that could go on in a next line */
    char
        filter[48]; /* of programs with this in their command, in letters of any case; empty: all */
    struct top_history history;
    char history_filter[48]; /* of which programs it is */
};

/* Reads all anew. pids: only these processes; none: all of this user. Of them
 * those that pass the filter; on cards the rest are others. */
void top_refresh(struct top_view *view, const uint64_t *pids, size_t pid_count);

/* A word is looked for, and a card has a program with it: such cards come first, and the others
 * have no more than a line. */
bool top_found(const struct top_view *view);

/* The next process below (step 1) or above (-1) the chosen one becomes it. */
void top_choose(struct top_view *view, int step);
