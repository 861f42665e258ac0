/* touch.c: what kernels and copies see of mapped pages, and what follows where nothing is open.
 * Copies stay below 64 KiB, for the simulated device moves no data in larger ones. */
#include "prove/check.h"
#include "prove/kernels.h"
#include "prove/pattern.h"

#include <fcntl.h>
#include <unistd.h>

/* Else a kernel that computes nothing would prove all the rest. */
enum outcome check_kernels(struct text *said) {
    enum { WORDS = 1024, SEED = 9 };
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
    enum { CHUNK = 4096 };
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
    WORKS("making a page", place_create(&place, 1));
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
