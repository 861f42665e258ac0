/* last_resort.h: a request for memory was refused: what may still serve it. One table for all of
 * them, cheapest first. Rungs are climbed until one has given enough or none is left; then who was
 * refused asks again, and may come back for the rest of the rungs. */
#pragma once

#include "track/device.h"

/* The request: what each kind of it may be given is the table in last_resort.c. */
enum refused {
    REFUSED_NOTHING,
    REFUSED_CALL,      /* of any library, which will not ask once more */
    REFUSED_SEGMENT,   /* of PyTorch's allocator: a cudaMalloc, or of the driver's pool */
    REFUSED_HANDLE,    /* of PyTorch's allocator, a cuMemCreate */
    REFUSED_PAGES,     /* what mode compact serves: the engine has no idle page any more */
    REFUSED_ADDRESSES, /* or page tables: it takes little of the card */
};

struct request {
    struct device *device; /* whose context is current; NULL: nothing is known of it */
    uint64_t bytes;
    enum refused what;
    bool pytorch_retries; /* it will empty its own cache, and ask once more */
    unsigned next;        /* rung */
};

/* Of this thread, in the device that is current. */
struct request last_resort_for(enum refused what, uint64_t bytes);

/* True: something was given, so that asking again may help. No lock is held. It may wait for the
 * GPU, and for other programs. */
bool last_resort(struct request *request);

/* comfy-aimdo, which fills the card with weights, gives some up for a cuMemAlloc and for nothing
 * else. give: makes such a call; true: it was granted. */
void last_resort_weights(bool (*give)(uint64_t bytes));
