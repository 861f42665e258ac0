/* gate.h: a request for memory of the card is refused where VRAMGC_HEADROOM or VRAMGC_CAP leaves no
 * room for it, as by the driver of a card that is so full. All that follows a refusal then follows
 * by itself. It must cost nothing where neither is set. */
#pragma once

#include "cuda/limit.h"
#include "cuda/real.h"

/* Who is just bringing a parked program back, for which nobody may take what it needs, by its
 * process_key; 0: nobody. NULL: it is not known. */
void gate_share(_Atomic uint64_t *waking);

/* Waits while that goes on, and the one who does it lives: a driver that runs out of memory there
 * never brings it back. */
void gate_wait_for(_Atomic uint64_t *waking);
extern _Atomic(_Atomic uint64_t *) gate_waking;

static inline void gate_wait(void) {
    _Atomic uint64_t *waking = atomic_load_explicit(&gate_waking, memory_order_relaxed);
    if (UNLIKELY(waking && atomic_load_explicit(waking, memory_order_relaxed)))
        gate_wait_for(waking);
}

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
    gate_wait();
    return gate_allows(uncounted_bytes) ? REAL(cuMemCreate)(handle, bytes, properties, 0)
                                        : CUDA_ERROR_OUT_OF_MEMORY;
}
