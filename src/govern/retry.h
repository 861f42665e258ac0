/* retry.h: the driver refused a call that mode compact does not serve. */
#ifndef RETRY_H
#define RETRY_H

#include "base/base.h"

/* Whether vramgc gave something back, so that asking again may help. */
bool retry_after_oom(uint64_t bytes);

#endif
