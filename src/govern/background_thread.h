/* background_thread.h: vramgc's own thread, which wakeup.h wakes. */
#ifndef BACKGROUND_THREAD_H
#define BACKGROUND_THREAD_H

#include <stdbool.h>

bool background_thread_start(void);
void background_thread_stop(void);

#endif
