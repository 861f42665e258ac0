/* background_thread.h: vramgc's own thread. */
#ifndef BACKGROUND_THREAD_H
#define BACKGROUND_THREAD_H

#include <stdbool.h>

bool background_thread_start(void);
void background_thread_stop(void);

/* It looks at everything at once; it takes the next step of decay.h at once.
 */
void background_thread_look(void);
void background_thread_wake(void);

#endif
