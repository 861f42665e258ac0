/* constant_reclaim.c: preloaded behind libvramgc.so it calls vramgc_reclaim() every 0.3 ms, so that
 * the background thread decommits pages at every moment there is. */
#include "vramgc.h"

#include <pthread.h>
#include <unistd.h>

#pragma weak vramgc_reclaim

static void *reclaim(void *unused) {
    for (;;) {
        usleep(300);
        for (int device = 0; device < 2; device++)
            vramgc_reclaim(device);
    }
    return unused;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    if (vramgc_reclaim && pthread_create(&thread, NULL, reclaim, NULL) == 0)
        pthread_detach(thread);
}
