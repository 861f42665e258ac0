/* top_view.h: which programs and cards `vramgc top` shows, in which order, and what was seen of
 * them in the latest minute. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/cards.h"
#include "show/top_history.h"

enum top_sort { TOP_BY_HELD, TOP_BY_LIVE, TOP_BY_IDLE, TOP_BY_PID, TOP_SORTS };

/* "held", "live", "idle", "pid". */
const char *top_sort_name(enum top_sort sort);

struct top_view {
    struct running running;
    struct cards cards;
    enum top_sort sort;
    uint64_t chosen_pid; /* its details are shown; 0: none */
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
