/* own_thread.h: how vramgc's own threads begin. They take no signals. */
#pragma once

#include <stdbool.h>

bool own_thread_start(void *(*function)(void *));

/* How many were started and have not ended. */
unsigned own_threads(void);

/* By a thread that ends: the program's exit handlers may be run in the last one, so it takes the
 * signals that the thread took which started the first of ours. */
void own_thread_ends(void);

/* The calling thread takes them, and goes on. */
void own_thread_take_signals(void);
