/* touch.c: what kernels and copies see of mapped pages. Copies stay below 64 KiB, for the simulated
 * device moves no data in larger ones. */
#include "prove/check.h"
#include "prove/kernels.h"
#include "prove/pattern.h"

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
    enum { CHUNK = 4096 }; /* of it half lies on either side of the border */
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
