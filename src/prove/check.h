/* check.h: what the checks of the driver share. Each runs in a child process with a time-out, so
 * that a fault or a hang ends only that one. One that fails leaves its memory behind: its process
 * ends. */
#ifndef PROVE_CHECK_H
#define PROVE_CHECK_H

#include "base/text.h"
#include "prove/driver_calls.h"

enum outcome { CHECK_PASSED, CHECK_FAILED, CHECK_SKIPPED };

/* How long the proof may take: ten seconds, a minute, or as long as it needs. */
enum form { FORM_QUICK, FORM_USUAL, FORM_FULL };

extern enum form check_form;

/* Set before the first child starts. Faults: rows that make the memory unit fault on purpose may
 * run. Spare: so much of the card is left to a desktop that hangs on it; 0: there is none. */
extern bool check_faults;
extern size_t check_spare_bytes;

/* For a check: gives up with the reason. */
enum outcome check_refused(struct text *said, const char *call, CUresult result);
enum outcome check_failed(struct text *said, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits for the device: whether all patterns were right so far. */
enum outcome check_patterns(struct text *said);

#define CALL(symbol, ...)                                                                          \
    do {                                                                                           \
        CUresult call_result = cu.symbol(__VA_ARGS__);                                             \
        if (call_result != CUDA_SUCCESS)                                                           \
            return check_refused(said, #symbol, call_result);                                      \
    } while (0)

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return check_failed(said, __VA_ARGS__);                                                \
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

#endif
