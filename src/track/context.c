/* context.c: see context.h. It must not use a context that is about to go. */
#include "track/context.h"

#include "track/alloc.h"
#include "track/device.h"
#include "track/recording.h"

static struct { _Atomic(CUcontext) primary[VRAMGC_MAX_DEVICES]; } self;

void context_primary_made(unsigned index, CUcontext context) {
    if (index < VRAMGC_MAX_DEVICES)
        atomic_store(&self.primary[index], context);
}

CUcontext context_primary(unsigned index) {
    return index < VRAMGC_MAX_DEVICES ? atomic_load(&self.primary[index]) : NULL;
}

bool context_primary_leave(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    CUcontext primary = device ? atomic_load(&self.primary[index]) : NULL;
    return primary && __atomic_compare_exchange_n(&device->context, &primary, NULL, false,
                                                  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void context_primary_stays(unsigned index) {
    struct device *device = recording_is_on() ? device_if_ready(index) : NULL;
    CUcontext none = NULL;
    if (device)
        __atomic_compare_exchange_n(&device->context, &none, atomic_load(&self.primary[index]),
                                    false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The device's other memory, that of the primary context, stays. */
void context_gone(CUcontext context) {
    if (!recording_is_on())
        return;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        CUcontext gone = context;
        if (device)
            __atomic_compare_exchange_n(&device->context, &gone, NULL, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED);
    }
    alloc_context_gone(context);
}
