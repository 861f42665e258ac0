/* full.c: what the driver says of memory that is released, and when there is none. It must hold all
 * of the card for as short as it can. */
#include "prove/check.h"

/* Of 1 GiB, then 64 MiB, then 2 MiB: a card of 288 GiB takes 350. */
enum { MOST = 4096 };

static struct {
    CUmemGenericAllocationHandle handles[MOST];
    size_t bytes[MOST];
    size_t count;
} hoard;

static CUresult free_now(size_t *bytes) {
    size_t total;
    return cu.cuMemGetInfo_v2(bytes, &total);
}

static void tell_lack(struct text *said, unsigned at_ms, size_t before, size_t now) {
    text_format(said, "%safter %u ms ", at_ms ? "; " : "", at_ms);
    text_add_bytes(said, minus_u64(before, now));
    text_add(said, " lacked");
}

/* Others may come meanwhile, and take a little. No driver is known to need longer than the ten
 * seconds that it gets. */
enum outcome check_release(struct text *said) {
    enum { TOLERANCE = 64 << 20 };
    static const unsigned waits_ms[] = {0, 10, 90};
    CUmemAllocationProp properties = place_properties();
    CUmemGenericAllocationHandle handle;
    size_t before, now = 0, bytes;
    unsigned at_ms = 0;
    CALL(cuMemGetInfo_v2, &before, &now);
    bytes = min_u64(before / 4, 512 << 20) / PAGE_BYTES * PAGE_BYTES;
    CALL(cuMemCreate, &handle, bytes, &properties, 0);
    CALL(cuMemRelease, handle);
    for (size_t i = 0; i < ARRAY_LENGTH(waits_ms); i++) {
        sleep_ns(waits_ms[i] * MILLISECOND_NS);
        at_ms += waits_ms[i];
        WORKS("cuMemGetInfo", free_now(&now));
        tell_lack(said, at_ms, before, now);
    }
    while (now + TOLERANCE < before && at_ms < 10000) {
        sleep_ns(100 * MILLISECOND_NS);
        at_ms += 100;
        WORKS("cuMemGetInfo", free_now(&now));
    }
    EXPECT(now + TOLERANCE >= before, "released memory did not come back in %u ms", at_ms);
    return CHECK_PASSED;
}

/* Takes handles of that size until one is refused. */
static CUresult take_all(size_t bytes) {
    CUmemAllocationProp properties = place_properties();
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && hoard.count < MOST) {
        result = cu.cuMemCreate(&hoard.handles[hoard.count], bytes, &properties, 0);
        hoard.bytes[hoard.count] = bytes;
        hoard.count += result == CUDA_SUCCESS;
    }
    return result;
}

static CUresult give_last(void) {
    hoard.count--;
    return cu.cuMemRelease(hoard.handles[hoard.count]);
}

/* A driver may need a moment. */
static bool gives_again(void) {
    CUmemAllocationProp properties = place_properties();
    size_t bytes = hoard.count ? hoard.bytes[hoard.count - 1] : 0;
    CUresult result = hoard.count ? give_last() : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned tries = 0; result == CUDA_SUCCESS && tries < 100; tries++) {
        CUmemGenericAllocationHandle handle;
        if (cu.cuMemCreate(&handle, bytes, &properties, 0) == CUDA_SUCCESS)
            return cu.cuMemRelease(handle) == CUDA_SUCCESS;
        sleep_ns(50 * MILLISECOND_NS);
    }
    return false;
}

enum outcome check_full(struct text *said) {
    static const size_t sizes[] = {(size_t)1 << 30, 64 << 20, PAGE_BYTES};
    CUmemAccessDesc access = place_access();
    struct place place;
    if (check_spare_bytes) {
        text_add(said, "a display hangs on the card: it is not filled");
        return CHECK_SKIPPED;
    }
    WORKS("making a page", place_create(&place, 1));
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        CUresult refusal = take_all(sizes[i]);
        if (refusal != CUDA_ERROR_OUT_OF_MEMORY)
            return check_refused(said, "cuMemCreate on a full card", refusal);
    }
    CUresult mapped = cu.cuMemMap(place.at, PAGE_BYTES, 0, place.handles[0], 0);
    CUresult opened =
        mapped == CUDA_SUCCESS ? cu.cuMemSetAccess(place.at, PAGE_BYTES, &access, 1) : CUDA_SUCCESS;
    text_format(said, "then cuMemMap: %s, ", driver_error_name(mapped));
    text_format(said, "cuMemSetAccess: %s", driver_error_name(opened));
    EXPECT(gives_again(), "what was released is not given again");
    while (hoard.count > 0)
        WORKS("cuMemRelease", give_last());
    if (mapped == CUDA_SUCCESS)
        CALL(cuMemUnmap, place.at, PAGE_BYTES);
    CALL(cuMemRelease, place.handles[0]);
    CALL(cuMemAddressFree, place.at, PAGE_BYTES);
    return CHECK_PASSED;
}
