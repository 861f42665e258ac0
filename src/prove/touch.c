/* touch.c: what copies, kernels and questions see of mapped pages, and what follows where nothing
 * is open. Copies stay below 64 KiB, for the simulated device moves no data in larger ones. */
#include "prove/touch.h"

#include "prove/kernels.h"
#include "prove/pages.h"
#include "prove/pattern.h"

#include <fcntl.h>
#include <unistd.h>

enum { CHUNK = 4096 };

/* --- kernels --- */

/* Else a kernel that computes nothing would prove all the rest. */
enum outcome check_kernels(struct text *said) {
    enum { WORDS = 1024 };
    uint32_t words[WORDS];
    CUdeviceptr at;
    uint64_t wrong = 0;
    if (driver_is_simulated()) {
        text_add(said,
                 "simulated: kernels do nothing, copies and its own questions stand for them");
        return CHECK_SKIPPED;
    }
    CALL(cuMemAlloc_v2, &at, sizeof words);
    EXPECT(pattern_write(0, at, sizeof words, 9) == CUDA_SUCCESS, "a kernel cannot be launched");
    CALL(cuMemcpyDtoH_v2, words, at, sizeof words);
    for (uint32_t i = 0; i < WORDS; i++)
        EXPECT(words[i] == i * PATTERN_FACTOR + 9, "a kernel wrote a wrong word");
    EXPECT(pattern_check(0, at, sizeof words, 9) == CUDA_SUCCESS &&
               pattern_wrong(&wrong) == CUDA_SUCCESS && wrong == 0,
           "a kernel saw what is not wrong");
    CALL(cuMemsetD8_v2, at + sizeof words - 1, (unsigned char)(words[WORDS - 1] >> 24 ^ 1), 1);
    EXPECT(pattern_check(0, at, sizeof words, 9) == CUDA_SUCCESS &&
               pattern_wrong(&wrong) == CUDA_SUCCESS && wrong == 1,
           "a kernel did not see one wrong word");
    CALL(cuMemFree_v2, at);
    return pattern_forget() == CUDA_SUCCESS ? CHECK_PASSED : CHECK_FAILED;
}

/* --- copies --- */

static void number(unsigned char *bytes, size_t count, unsigned first) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + first + i / 251);
}

/* From the host over a border, within the device over another one, and back. */
enum outcome check_copies(struct text *said) {
    unsigned char out[CHUNK], back[CHUNK], filled[CHUNK];
    struct place place;
    EXPECT(place_make(&place, 4) == CUDA_SUCCESS, "pages could not be mapped");
    CUdeviceptr first = place.at + PAGE_BYTES - CHUNK / 2, second = first + 2 * PAGE_BYTES;
    number(out, CHUNK, 3);
    CALL(cuMemcpyHtoD_v2, first, out, CHUNK);
    CALL(cuMemcpyDtoDAsync_v2, second, first, CHUNK, 0);
    CALL(cuMemcpyDtoHAsync_v2, back, second, CHUNK, 0);
    CALL(cuCtxSynchronize, );
    EXPECT(memcmp(out, back, CHUNK) == 0, "a copy over the border of two handles is wrong");
    CALL(cuMemsetD8_v2, first, 0x5a, CHUNK);
    CALL(cuMemcpyDtoH_v2, filled, first, CHUNK);
    for (size_t i = 0; i < CHUNK; i++)
        EXPECT(filled[i] == 0x5a, "a fill over the border of two handles is wrong");
    EXPECT(place_end(&place) == CUDA_SUCCESS, "pages could not be given back");
    return CHECK_PASSED;
}

enum { SIDE = 16, PITCH = 512 };

/* Rows on both sides of a border of handles. */
static CUdeviceptr across(const struct place *place) {
    return place->at + PAGE_BYTES - SIDE / 2 * PITCH;
}

static enum outcome copy_2d(struct text *said, CUdeviceptr at) {
    unsigned char out[SIDE * SIDE], back[SIDE * SIDE] = {0};
    number(out, sizeof out, 11);
    CUDA_MEMCPY2D in = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = out,
        .srcPitch = SIDE,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = at,
        .dstPitch = PITCH,
        .WidthInBytes = SIDE,
        .Height = SIDE,
    };
    CUDA_MEMCPY2D from = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = at,
        .srcPitch = PITCH,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = back,
        .dstPitch = SIDE,
        .WidthInBytes = SIDE,
        .Height = SIDE,
    };
    CALL(cuMemcpy2D_v2, &in);
    CALL(cuMemcpy2D_v2, &from);
    EXPECT(memcmp(out, back, sizeof out) == 0, "a copy in two dimensions is wrong");
    return CHECK_PASSED;
}

static enum outcome copy_3d(struct text *said, CUdeviceptr at) {
    enum { DEPTH = 4, ROWS = SIDE / DEPTH };
    unsigned char out[SIDE * SIDE], back[SIDE * SIDE] = {0};
    number(out, sizeof out, 23);
    CUDA_MEMCPY3D in = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = out,
        .srcPitch = SIDE,
        .srcHeight = ROWS,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = at,
        .dstPitch = PITCH,
        .dstHeight = ROWS,
        .WidthInBytes = SIDE,
        .Height = ROWS,
        .Depth = DEPTH,
    };
    CUDA_MEMCPY3D from = in;
    from.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    from.srcHost = NULL;
    from.srcDevice = at;
    from.srcPitch = PITCH;
    from.dstMemoryType = CU_MEMORYTYPE_HOST;
    from.dstDevice = 0;
    from.dstHost = back;
    from.dstPitch = SIDE;
    CALL(cuMemcpy3D_v2, &in);
    CALL(cuMemcpy3D_v2, &from);
    EXPECT(memcmp(out, back, sizeof out) == 0, "a copy in three dimensions is wrong");
    return CHECK_PASSED;
}

enum outcome check_shapes(struct text *said) {
    unsigned char row[SIDE];
    struct place place;
    EXPECT(place_make(&place, 2) == CUDA_SUCCESS, "pages could not be mapped");
    CUdeviceptr at = across(&place);
    if (copy_2d(said, at) != CHECK_PASSED || copy_3d(said, at) != CHECK_PASSED)
        return CHECK_FAILED;
    CALL(cuMemsetD2D8_v2, at, PITCH, 0x77, SIDE, SIDE);
    for (size_t i = 0; i < SIDE; i++) {
        CALL(cuMemcpyDtoH_v2, row, at + i * PITCH, SIDE);
        for (size_t j = 0; j < SIDE; j++)
            EXPECT(row[j] == 0x77, "a fill in two dimensions is wrong");
    }
    EXPECT(place_end(&place) == CUDA_SUCCESS, "pages could not be given back");
    return CHECK_PASSED;
}

/* --- questions --- */

static void tell_of(struct text *said, const char *where, CUdeviceptr at) {
    unsigned type = 0;
    int ordinal = -9;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult known = cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
    CUresult range = cu.cuMemGetAddressRange_v2(&base, &bytes, at);
    text_format(said, "%s: type %u of device %d (%s), ", where, type, ordinal,
                driver_error_name(known));
    if (range == CUDA_SUCCESS)
        text_format(said, "range %zu KiB; ", bytes >> 10);
    else
        text_format(said, "no range (%s); ", driver_error_name(range));
}

enum outcome check_pointers(struct text *said) {
    struct place place;
    EXPECT(place_make(&place, 2) == CUDA_SUCCESS, "pages could not be mapped");
    tell_of(said, "mapped", place.at + PAGE_BYTES);
    CALL(cuMemUnmap, place.at + PAGE_BYTES, PAGE_BYTES);
    CALL(cuMemRelease, place.handles[1]);
    tell_of(said, "unmapped", place.at + PAGE_BYTES);
    place.pages = 1;
    CALL(cuMemUnmap, place.at, PAGE_BYTES);
    CALL(cuMemRelease, place.handles[0]);
    CALL(cuMemAddressFree, place.at, 2 * PAGE_BYTES);
    return CHECK_PASSED;
}

/* vramgc knows functions by their addresses. */
enum outcome check_names(struct text *said) {
    static const char *const names[] = {"cuMemCreate",    "cuMemMap",     "cuMemUnmap",
                                        "cuMemSetAccess", "cuMemRelease", "cuMemAddressReserve"};
    int version = 0, agree = 0;
    CALL(cuDriverGetVersion, &version);
    for (size_t i = 0; i < ARRAY_LENGTH(names) && cu.cuGetProcAddress; i++) {
        void *found = NULL;
        if (cu.cuGetProcAddress(names[i], &found, version, 0) == CUDA_SUCCESS)
            agree += found == driver_symbol(names[i]);
    }
    text_format(said, "%d of %zu agree", agree, ARRAY_LENGTH(names));
    return CHECK_PASSED;
}

/* --- faults: the kernel's log gets an Xid 31 of each, for which some data centres take a machine
 * out of service --- */

/* The simulated device complains of what is meant here. */
static void be_silent(void) {
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, STDERR_FILENO);
}

enum outcome check_no_access(struct text *said) {
    size_t free_bytes, total_bytes;
    struct place place;
    be_silent();
    EXPECT(place_create(&place, 1) == CUDA_SUCCESS, "a page could not be had");
    CALL(cuMemMap, place.at, PAGE_BYTES, 0, place.handles[0], 0);
    CUresult launched = pattern_write(0, place.at, PAGE_BYTES, 1);
    CUresult seen = cu.cuCtxSynchronize();
    EXPECT(launched != CUDA_SUCCESS || seen != CUDA_SUCCESS,
           "a kernel wrote to a page that was not open");
    text_format(said, "%s; then ", driver_error_name(seen));
    text_format(said, "cuMemGetInfo: %s, ",
                driver_error_name(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes)));
    text_format(said, "cuMemUnmap: %s, ", driver_error_name(cu.cuMemUnmap(place.at, PAGE_BYTES)));
    text_format(said, "cuMemRelease: %s", driver_error_name(cu.cuMemRelease(place.handles[0])));
    return CHECK_PASSED;
}

enum outcome check_after_fault(struct text *said) {
    return check_access(said);
}
