/* fake_driver.h: the small driver that threads.c puts under the page engine. It checks each call
 * and is slow where it hurts: while a page is on its way, and between two calls that belong
 * together. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "vm/vm_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { PLACES = 4096, HANDLES = 1 << 20 };

/* Streams that come and go. */
enum { STREAMS = 8, FIRST_STREAM = 1000 };

/* What lies at a place: nothing, reserved, or the handle plus FIRST_HANDLE. */
enum { RESERVED = 1, FIRST_HANDLE = 2 };

struct fake {
    pthread_mutex_t lock;
    uint64_t place[PLACES]; /* handle mapped there */
    size_t open_to[PLACES]; /* so many devices */
    uint64_t next_handle;
    unsigned slow_us;        /* so long each release takes */
    bool prompt;             /* no call lets another thread come first: there is none */
    void (*meanwhile)(void); /* what somebody else does while memory is unmapped or released */
    atomic_uint calls;       /* that move memory or addresses */
    atomic_uint infos;       /* that ask how much there is: as often as the clock says */
    unsigned capacity;       /* pages of the device, but for those that others have: */
    unsigned pages_elsewhere;
    unsigned boast;      /* it says that it has so many times as many */
    unsigned large;      /* handles of more than one page so far */
    unsigned largest;    /* it has no larger extents than of so many pages; 0: it has all */
    unsigned pages_out;  /* created and not yet released */
    uint64_t pages_made; /* created so far */
    unsigned char mapped_at[HANDLES];
    unsigned npages[HANDLES];      /* pages */
    _Atomic uint64_t busy[PLACES]; /* work that uses the page: the GPU may not lose it */
    unsigned answers;  /* the GPU is at work: so many queries are told so, if nobody waits for it */
    atomic_uint asked; /* about streams, events or all at once */
    atomic_bool capturing;
    atomic_uint asked_during_capture;
    atomic_bool dead[STREAMS]; /* the driver has destroyed it */
};

extern struct fake fake;
extern THREAD_LOCAL unsigned seed;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s: line %d: %s\n", __FILE__, __LINE__, #condition);                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

unsigned below(unsigned bound);
void dawdle(void); /* others get the processor at the worst moments */
size_t place_of(uint64_t address);
void fake_install(unsigned capacity);
void fake_install_context_event(void); /* the driver has it */

CUresult fake_reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr at,
                      unsigned long long flags);
CUresult fake_free(CUdeviceptr address, size_t bytes);

#endif
