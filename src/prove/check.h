/* check.h: what the checks of the driver share.
 *
 *     prove_card.c     for each card that is idle: its rows, then the file of the proof
 *       child.c        the rows of checks.def; a row: OPEN -> RUNNING -> DONE
 *         pages.c, order.c, soak.c, park_driver.c              the rows
 *           check.c, driver_calls.c                            pages, work, the driver itself
 *
 * All that calls the driver runs in children with a time-out, so that a fault or a hang ends only
 * one of them; a row that fails leaves its memory behind, for its process ends. A proof says
 * "passed" only where each row of the table came to its end, and none failed. */
#pragma once

#include "base/text.h"
#include "prove/driver_calls.h"

/* CHECK_NOT_OFFERED: the driver refuses it before anything has happened. */
enum outcome { CHECK_PASSED, CHECK_FAILED, CHECK_SKIPPED, CHECK_NOT_OFFERED };

/* How long the proof may take: ten seconds, a minute, or as long as it needs. */
enum form { FORM_QUICK, FORM_USUAL, FORM_FULL };

extern enum form check_form;

/* Set before the first child starts: so much of the card is left to a desktop that hangs on it; 0:
 * there is none. */
extern size_t check_spare_bytes;

/* Set by "unmap beside": cuMemUnmap comes back only when running kernels are over. The parent sees
 * it, too. */
extern bool *check_unmap_waits;

/* ---- work on the device, and whether memory holds what was written. On a card kernels do both.
 * The simulated device's kernels do nothing: there its own questions (simgpu_touch, simgpu_expect)
 * stand for them, and nothing is claimed of arithmetic. ---- */

/* Word i of a pattern is i * PATTERN_FACTOR + seed. */
#define PATTERN_FACTOR 2654435761u

/* Compiles the kernels, and makes a counter. */
CUresult pattern_open(void);

/* Behind what the stream does already: every word of the pages is written, or compared. bytes is a
 * multiple of 4. */
CUresult pattern_write(CUstream stream, CUdeviceptr at, size_t bytes, uint32_t seed);
CUresult pattern_check(CUstream stream, CUdeviceptr at, size_t bytes, uint32_t seed);

/* Waits for the device; how many words were wrong so far, or uses that the simulated device
 * reported. */
CUresult pattern_wrong(uint64_t *wrong);

/* Counts from none again. */
CUresult pattern_forget(void);

/* Work that keeps the stream busy for about so long; on the simulated device until it is ended. */
CUresult work_begin(CUstream stream, unsigned milliseconds);
CUresult work_end(CUstream stream);

/* Work that is over by itself after about so long, also on the simulated device: there work_end
 * waits for the thread that ends it. One at a time. */
CUresult work_for(CUstream stream, unsigned milliseconds);

/* ---- a check ---- */

/* For a check: gives up with the reason. */
enum outcome check_refused(struct text *said, const char *call, CUresult result);

/* Numbers of two pages are unlike, and so are the bytes around a border. */
void check_number(unsigned char *bytes, size_t count, unsigned first);

/* Waits for the device: whether all patterns were right so far. */
enum outcome check_patterns(struct text *said);

/* Gives up where a call answers with an error. */
#define WORKS(what, call)                                                                          \
    do {                                                                                           \
        CUresult call_result = (call);                                                             \
        if (call_result != CUDA_SUCCESS)                                                           \
            return check_refused(said, what, call_result);                                         \
    } while (0)

#define CALL(symbol, ...) WORKS(#symbol, cu.symbol(__VA_ARGS__))

/* Gives up where a part of the check has. */
#define PASS(part)                                                                                 \
    do {                                                                                           \
        if ((part) != CHECK_PASSED)                                                                \
            return CHECK_FAILED;                                                                   \
    } while (0)

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return text_format(said, __VA_ARGS__), CHECK_FAILED;                                   \
    } while (0)

/* Pages in a row, each a handle of its own, and open to the device. */
enum { PLACE_PAGES = 64 };

struct place {
    CUdeviceptr at;
    size_t pages;
    CUmemGenericAllocationHandle handles[PLACE_PAGES];
};

CUmemAllocationProp place_properties(void);
CUmemAccessDesc place_access(void);

/* Each of them the first error. */
CUresult place_create(struct place *place, size_t pages); /* addresses and handles */
CUresult place_map(struct place *place);                  /* and opens, by one call */
CUresult place_make(struct place *place, size_t pages);   /* both */
CUresult place_end(struct place *place);

/* The rows of checks.def. */
typedef enum outcome check_function(struct text *said);
#define CHECK(name, function, from, alone, asked) check_function check_##function;
#include "prove/checks.def"
#undef CHECK
