/* pages.c: what the driver does with handles, mappings and addresses, what kernels, copies and
 * other devices see of mapped pages, and what it says when memory is released, or when there is
 * none. It must leave no mapping behind where it passes, other devices as they were, and hold all
 * of the card for as short as it can. Copies stay below 64 KiB, for the simulated device moves no
 * data in larger ones. */
#include "prove/check.h"
#include "vm/page_table.h"

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

/* One handle of so many bytes at one address, then at another. */
static enum outcome move_works(struct text *said, size_t bytes) {
    CUmemAllocationProp properties = place_properties();
    CUmemAccessDesc access = place_access();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at[2];
    CALL(cuMemCreate, &handle, bytes, &properties, 0);
    for (size_t i = 0; i < 2; i++) {
        CALL(cuMemAddressReserve, &at[i], bytes, 0, 0, 0);
        CALL(cuMemMap, at[i], bytes, 0, handle, 0);
        CALL(cuMemSetAccess, at[i], bytes, &access, 1);
        WORKS("a kernel",
              i ? pattern_check(0, at[i], bytes, 77) : pattern_write(0, at[i], bytes, 77));
        PASS(check_patterns(said));
        CALL(cuMemUnmap, at[i], bytes);
    }
    CALL(cuMemRelease, handle);
    for (size_t i = 0; i < 2; i++)
        CALL(cuMemAddressFree, at[i], bytes);
    return CHECK_PASSED;
}

enum outcome check_content(struct text *said) {
    return move_works(said, PAGE_BYTES);
}

/* As large as the engine has them. */
enum outcome check_large(struct text *said) {
    size_t free_bytes, total_bytes;
    CALL(cuMemGetInfo_v2, &free_bytes, &total_bytes);
    size_t pages = extent_within(extent_largest(total_bytes, true));
    text_format(said, "of %zu MiB", pages * PAGE_BYTES >> 20);
    return move_works(said, pages * PAGE_BYTES);
}

/* The handles go round by one place; what each holds goes with it. */
static void turn_handles(struct place *place) {
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
        turn_handles(&place);
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

/* ---- what kernels and copies see ---- */

enum { CHUNK = 4096 }; /* of a copy; over a border of pages half of it lies on either side */

/* Else a kernel that computes nothing would prove all the rest. */
enum outcome check_kernels(struct text *said) {
    enum { WORDS = 1024, SEED = 9 }; /* copied back in one piece: 4 KiB */
    uint32_t words[WORDS];
    CUdeviceptr at;
    uint64_t wrong = 0;
    if (driver_is_simulated()) {
        text_add(said,
                 "simulated: kernels do nothing, copies and its own questions stand for them");
        return CHECK_SKIPPED;
    }
    CALL(cuMemAlloc_v2, &at, sizeof words);
    WORKS("a kernel", pattern_write(0, at, sizeof words, SEED));
    CALL(cuMemcpyDtoH_v2, words, at, sizeof words);
    for (uint32_t i = 0; i < WORDS; i++)
        EXPECT(words[i] == i * PATTERN_FACTOR + SEED, "a kernel wrote a wrong word");
    WORKS("a kernel", pattern_check(0, at, sizeof words, SEED));
    WORKS("a kernel", pattern_wrong(&wrong));
    EXPECT(wrong == 0, "a kernel saw what is not wrong");
    CALL(cuMemsetD8_v2, at + sizeof words - 1, (unsigned char)(words[WORDS - 1] >> 24 ^ 1), 1);
    WORKS("a kernel", pattern_check(0, at, sizeof words, SEED));
    WORKS("a kernel", pattern_wrong(&wrong));
    EXPECT(wrong == 1, "a kernel did not see one wrong word");
    CALL(cuMemFree_v2, at);
    WORKS("cuMemsetD8", pattern_forget());
    return CHECK_PASSED;
}

/* From the host over a border, within the device over another one, and back. */
enum outcome check_copies(struct text *said) {
    unsigned char out[CHUNK], back[CHUNK], filled[CHUNK];
    struct place place;
    WORKS("mapping pages", place_make(&place, 4));
    CUdeviceptr first = place.at + PAGE_BYTES - CHUNK / 2, second = first + 2 * PAGE_BYTES;
    check_number(out, CHUNK, 3);
    CALL(cuMemcpyHtoD_v2, first, out, CHUNK);
    CALL(cuMemcpyDtoDAsync_v2, second, first, CHUNK, 0);
    CALL(cuMemcpyDtoHAsync_v2, back, second, CHUNK, 0);
    CALL(cuCtxSynchronize, );
    EXPECT(memcmp(out, back, CHUNK) == 0, "a copy over the border of two handles is wrong");
    CALL(cuMemsetD8_v2, first, 0x5a, CHUNK);
    CALL(cuMemcpyDtoH_v2, filled, first, CHUNK);
    for (size_t i = 0; i < CHUNK; i++)
        EXPECT(filled[i] == 0x5a, "a fill over the border of two handles is wrong");
    WORKS("giving pages back", place_end(&place));
    return CHECK_PASSED;
}

/* ---- copies between mapped pages and another device, which the driver makes through the host
 * where the two cannot access each other. Where they can, the other one is let in as the engine
 * does it (vm/access.c) ---- */

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

/* ---- a full card ---- */

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
        text_format(said, "%safter %u ms ", at_ms ? "; " : "", at_ms);
        text_add_bytes(said, minus_u64(before, now));
        text_add(said, " lacked");
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
        text_add(said, "a monitor is connected to the card: it is not filled");
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
