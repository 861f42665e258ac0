/* background_thread.h: vramgc's own thread, woken by own_thread.h. */
#pragma once

#include <stdbool.h>

bool background_thread_start(void);
void background_thread_stop(void);
