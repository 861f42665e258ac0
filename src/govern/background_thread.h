/* background_thread.h: vramgc's own threads, the flush thread and the decay thread. */
#pragma once

#include <stdbool.h>

bool background_thread_start(void);
void background_thread_stop(void);
