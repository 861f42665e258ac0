/* room.h: a request of PyTorch's was refused, and somebody in this process may give up memory. */
#ifndef ROOM_H
#define ROOM_H

#include "base/base.h"

/* comfy-aimdo, which fills the card with weights, gives some up for a cuMemAlloc and for nothing
 * else. So the request becomes one for a moment. Whether it was granted: asking again may help. */
bool room_make(uint64_t bytes);

#endif
