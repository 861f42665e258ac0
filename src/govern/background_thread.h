/* background_thread.h: vramgc's own thread, which wakeup.h wakes. */
#pragma once

#include <stdbool.h>

bool background_thread_start(void);
void background_thread_stop(void);
