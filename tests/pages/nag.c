/* nag.c: preloaded behind libvramgc.so: asks for a reclaim all the time, so that vramgc's own
 * thread gives pages back at every moment there is. NAG_US: the pause between two wishes. */
#include "vramgc.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#pragma weak vramgc_reclaim

static void *nag(void *unused) {
    const char *text = getenv("NAG_US");
    useconds_t pause = text ? (useconds_t)atoi(text) : 300;
    for (;;) {
        usleep(pause);
        for (int device = 0; device < 2; device++)
            vramgc_reclaim(device);
    }
    return unused;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    if (vramgc_reclaim && pthread_create(&thread, NULL, nag, NULL) == 0)
        pthread_detach(thread);
}
