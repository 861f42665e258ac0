/* peers.c: copies between mapped pages and another device, which the driver makes through the host
 * where the two cannot access each other. Where they can, the other one is let in as the engine
 * does it (vm/access.c). It must leave that device as it was: its context goes at the end. */
#include "prove/check.h"

enum { CHUNK = 4096 }; /* below 64 KiB: see touch.c */

static struct {
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    bool may_access;
} other;

/* One that can access our memory, else any. */
static bool find_other(void) {
    int count = 0;
    bool found = false;
    if (cu.cuDeviceGetCount(&count) != CUDA_SUCCESS || !cu.cuMemcpyPeer)
        return false;
    for (int i = 0; i < count && !other.may_access; i++) {
        int may_access = 0;
        CUdevice device;
        if (i == driver_device() || cu.cuDeviceGet(&device, i) != CUDA_SUCCESS)
            continue;
        if (cu.cuDeviceCanAccessPeer)
            cu.cuDeviceCanAccessPeer(&may_access, device, driver_device());
        if (!found || may_access)
            other.device = device;
        other.may_access = may_access != 0;
        found = true;
    }
    return found;
}

/* It may be busy, or forbidden to us: that says nothing of our pages. */
static bool open_other(void) {
    bool opened = cu.cuDevicePrimaryCtxRetain(&other.context, other.device) == CUDA_SUCCESS &&
                  cu.cuCtxSetCurrent(other.context) == CUDA_SUCCESS &&
                  cu.cuMemAlloc_v2(&other.memory, CHUNK) == CUDA_SUCCESS;
    driver_bind();
    return opened;
}

/* Bytes are copied to the other device, and come back to another place. */
static enum outcome there_and_back(struct text *said, CUdeviceptr from, CUdeviceptr to) {
    unsigned char out[CHUNK], back[CHUNK] = {0};
    CUcontext own = driver_context();
    check_number(out, CHUNK, 20);
    CALL(cuMemcpyHtoD_v2, from, out, CHUNK);
    CALL(cuMemcpyPeer, other.memory, other.context, from, own, CHUNK);
    CALL(cuMemcpyPeer, to, own, other.memory, other.context, CHUNK);
    CALL(cuCtxSynchronize, );
    CALL(cuMemcpyDtoH_v2, back, to, CHUNK);
    EXPECT(memcmp(out, back, CHUNK) == 0, "a copy to gpu%d and back is wrong", other.device);
    return CHECK_PASSED;
}

/* As the engine does: both by one call. */
static CUresult let_in(const struct place *place) {
    CUmemAccessDesc access[2] = {place_access(), place_access()};
    access[1].location.id = other.device;
    return cu.cuMemSetAccess(place->at, place->pages * PAGE_BYTES, access, 2);
}

/* The other device reads the pages itself. */
static enum outcome read_from_other(struct text *said, CUdeviceptr from, const unsigned char *is) {
    unsigned char back[CHUNK] = {0};
    CALL(cuCtxSetCurrent, other.context);
    CALL(cuMemcpyDtoDAsync_v2, other.memory, from, CHUNK, 0);
    CALL(cuMemcpyDtoH_v2, back, other.memory, CHUNK);
    WORKS("cuCtxSetCurrent", driver_bind());
    EXPECT(memcmp(is, back, CHUNK) == 0, "gpu%d reads something else", other.device);
    return CHECK_PASSED;
}

/* Two pages that change places: both devices must see that at once. */
static enum outcome check_let_in(struct text *said, struct place *place) {
    unsigned char first[CHUNK], second[CHUNK];
    check_number(first, CHUNK, 40);
    check_number(second, CHUNK, 50);
    CALL(cuMemcpyHtoD_v2, place->at, first, CHUNK);
    CALL(cuMemcpyHtoD_v2, place->at + PAGE_BYTES, second, CHUNK);
    for (int times = 0; times < 20; times++) {
        CUmemGenericAllocationHandle handle = place->handles[0];
        WORKS("letting the other device in", let_in(place));
        PASS(read_from_other(said, place->at, times % 2 ? second : first));
        PASS(read_from_other(said, place->at + PAGE_BYTES, times % 2 ? first : second));
        CALL(cuMemUnmap, place->at, 2 * PAGE_BYTES);
        place->handles[0] = place->handles[1];
        place->handles[1] = handle;
        WORKS("mapping pages", place_map(place));
    }
    return CHECK_PASSED;
}

static enum outcome check_copies_to(struct text *said) {
    struct place place;
    WORKS("mapping pages", place_make(&place, 4));
    CUdeviceptr first = place.at + PAGE_BYTES - CHUNK / 2, second = first + 2 * PAGE_BYTES;
    PASS(there_and_back(said, first, second));
    WORKS("giving pages back", place_end(&place));
    WORKS("mapping pages", place_make(&place, 2));
    if (other.may_access)
        PASS(check_let_in(said, &place));
    WORKS("giving pages back", place_end(&place));
    text_format(said, "with gpu%d, ", other.device);
    text_add(said, other.may_access ? "which can access our pages" : "through the host");
    return CHECK_PASSED;
}

enum outcome check_peers(struct text *said) {
    if (!find_other()) {
        text_add(said, "there is no other device");
        return CHECK_SKIPPED;
    }
    bool opened = open_other();
    enum outcome outcome = opened ? check_copies_to(said) : CHECK_SKIPPED;
    if (!opened)
        text_format(said, "gpu%d cannot be used", other.device);
    if (other.context && cu.cuDevicePrimaryCtxRelease_v2)
        cu.cuDevicePrimaryCtxRelease_v2(other.device);
    return outcome;
}
