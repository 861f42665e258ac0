/* pages.c: what the driver does with handles, mappings and addresses. It must leave no mapping
 * behind where it passes. */
#include "prove/check.h"
#include "prove/pattern.h"

/* Compute capabilities 7.0 and 7.2; 7.5 is Turing.
 * https://github.com/ovg-project/kvcached/issues/465
 */
enum { VOLTA = 7, TURING_MINOR = 5 };

enum outcome check_grain(struct text *said) {
    CUmemAllocationProp properties = place_properties();
    size_t grain = 0;
    int supported = 0, major = 0, minor = 0;
    CALL(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
         driver_device());
    CALL(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
         driver_device());
    EXPECT(major != VOLTA || minor >= TURING_MINOR,
           "Volta (sm_%d%d): pages that are mapped beside running kernels make it fault", major,
           minor);
    CALL(cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
         driver_device());
    EXPECT(supported, "the device says that it cannot map memory");
    CALL(cuMemGetAllocationGranularity, &grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    EXPECT(grain && PAGE_BYTES % grain == 0, "the granularity is %zu bytes", grain);
    text_format(said, "granularity %zu KiB", grain >> 10);
    return CHECK_PASSED;
}

/* One handle at one address, then at another. */
enum outcome check_content(struct text *said) {
    struct place place;
    CUmemAccessDesc access = place_access();
    CUdeviceptr other;
    CALL(cuMemAddressReserve, &other, PAGE_BYTES, 0, 0, 0);
    WORKS("mapping pages", place_make(&place, 1));
    WORKS("a kernel", pattern_write(0, place.at, PAGE_BYTES, 77));
    CALL(cuCtxSynchronize, );
    CALL(cuMemUnmap, place.at, PAGE_BYTES);
    CALL(cuMemMap, other, PAGE_BYTES, 0, place.handles[0], 0);
    CALL(cuMemSetAccess, other, PAGE_BYTES, &access, 1);
    WORKS("a kernel", pattern_check(0, other, PAGE_BYTES, 77));
    PASS(check_patterns(said));
    CALL(cuMemUnmap, other, PAGE_BYTES);
    CALL(cuMemRelease, place.handles[0]);
    CALL(cuMemAddressFree, other, PAGE_BYTES);
    CALL(cuMemAddressFree, place.at, PAGE_BYTES);
    return CHECK_PASSED;
}

/* The handles go round by one place; what each holds goes with it. */
static void turn(struct place *place) {
    CUmemGenericAllocationHandle first = place->handles[0];
    memmove(place->handles, place->handles + 1, (place->pages - 1) * sizeof *place->handles);
    place->handles[place->pages - 1] = first;
}

/* A stale translation would show what was there before. Both kernels and copies look. */
enum outcome check_translation(struct text *said) {
    enum { PAGES = 8, TURNS = 200 }; /* 1,600 looks; on the simulated device one shows a fault */
    struct place place;
    uint32_t copied = 0;
    WORKS("mapping pages", place_make(&place, PAGES));
    for (uint32_t i = 0; i < PAGES; i++) {
        WORKS("a kernel", pattern_write(0, place.at + i * PAGE_BYTES, PAGE_BYTES, 100 + i));
        CALL(cuMemsetD32_v2, place.at + i * PAGE_BYTES, 0xabc00000 + i, 1);
    }
    CALL(cuCtxSynchronize, );
    for (uint32_t round = 1; round <= TURNS; round++) {
        CALL(cuMemUnmap, place.at, PAGES * PAGE_BYTES);
        turn(&place);
        WORKS("mapping pages", place_map(&place));
        for (uint32_t i = 0; i < PAGES; i++) {
            uint32_t shown = (i + round) % PAGES;
            CUdeviceptr at = place.at + i * PAGE_BYTES;
            CALL(cuMemcpyDtoH_v2, &copied, at, sizeof copied);
            EXPECT(copied == 0xabc00000 + shown, "a copy saw the page that was there before");
            WORKS("a kernel", pattern_write(0, at, 4, 100 + shown));
            WORKS("a kernel", pattern_check(0, at, PAGE_BYTES, 100 + shown));
            CALL(cuMemsetD32_v2, at, 0xabc00000 + shown, 1);
        }
        PASS(check_patterns(said));
    }
    WORKS("giving pages back", place_end(&place));
    return CHECK_PASSED;
}

/* One of them closed would end the process, or show as an error. */
enum outcome check_access(struct text *said) {
    struct place place;
    WORKS("mapping pages", place_make(&place, PLACE_PAGES));
    WORKS("a kernel", pattern_write(0, place.at, PLACE_PAGES * PAGE_BYTES, 5));
    WORKS("a kernel", pattern_check(0, place.at, PLACE_PAGES * PAGE_BYTES, 5));
    PASS(check_patterns(said));
    WORKS("giving pages back", place_end(&place));
    return CHECK_PASSED;
}

enum outcome check_addresses(struct text *said) {
    size_t free_bytes, total_bytes;
    CUdeviceptr at;
    CALL(cuMemGetInfo_v2, &free_bytes, &total_bytes);
    size_t bytes = (2 * total_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    CALL(cuMemAddressReserve, &at, bytes, 0, 0, 0);
    EXPECT(at % PAGE_BYTES == 0, "the range does not begin at a page");
    CALL(cuMemAddressFree, at, bytes);
    return CHECK_PASSED;
}
