/* gate.h: a request for memory of the card is refused where VRAMGC_HEADROOM or VRAMGC_CAP leaves no
 * room for it, as by the driver of a card that is so full. All that follows a refusal then follows
 * by itself. It must cost nothing where neither is set. */
#pragma once

#include "cuda/limit.h"
#include "cuda/real.h"

/* Whether the current card is to give so much more than limit_own says. It may ask the driver what
 * is free, no more often than meminfo.h allows. Any thread; no lock is held. */
bool gate_has_room(uint64_t bytes);

static inline bool gate_allows(uint64_t bytes) {
    return LIKELY(!limit_is_on()) || gate_has_room(bytes);
}

/* cuMemCreate of device memory. uncounted_bytes: of it, what limit_own does not count yet. */
static inline CUresult gate_create(CUmemGenericAllocationHandle *handle, uint64_t bytes,
                                   const CUmemAllocationProp *properties,
                                   uint64_t uncounted_bytes) {
    return gate_allows(uncounted_bytes) ? REAL(cuMemCreate)(handle, bytes, properties, 0)
                                        : CUDA_ERROR_OUT_OF_MEMORY;
}
