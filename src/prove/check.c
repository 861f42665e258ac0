/* check.c: see check.h. */
#include "prove/check.h"

#include "prove/pattern.h"

#include <stdarg.h>
#include <stdio.h>

enum form check_form;
size_t check_spare_bytes;
bool *check_unmap_waits;

enum outcome check_refused(struct text *said, const char *call, CUresult result) {
    text_format(said, "%s%s: %s", said->length ? "; " : "", call, driver_error_name(result));
    return CHECK_FAILED;
}

enum outcome check_failed(struct text *said, const char *format, ...) {
    char line[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_add(said, line);
    return CHECK_FAILED;
}

void check_number(unsigned char *bytes, size_t count, unsigned first) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + first + i / 251);
}

enum outcome check_patterns(struct text *said) {
    uint64_t wrong = 0;
    WORKS("cuCtxSynchronize", pattern_wrong(&wrong));
    EXPECT(wrong == 0, "%llu words or uses were wrong", (unsigned long long)wrong);
    return CHECK_PASSED;
}

/* --- places --- */

CUmemAllocationProp place_properties(void) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = driver_device()},
    };
}

CUmemAccessDesc place_access(void) {
    return (CUmemAccessDesc){
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = driver_device()},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
}

CUresult place_create(struct place *place, size_t pages) {
    CUmemAllocationProp properties = place_properties();
    place->pages = pages;
    TRY(cu.cuMemAddressReserve(&place->at, pages * PAGE_BYTES, 0, 0, 0));
    for (size_t i = 0; i < pages; i++)
        TRY(cu.cuMemCreate(&place->handles[i], PAGE_BYTES, &properties, 0));
    return CUDA_SUCCESS;
}

CUresult place_map(struct place *place) {
    CUmemAccessDesc access = place_access();
    for (size_t i = 0; i < place->pages; i++)
        TRY(cu.cuMemMap(place->at + i * PAGE_BYTES, PAGE_BYTES, 0, place->handles[i], 0));
    return cu.cuMemSetAccess(place->at, place->pages * PAGE_BYTES, &access, 1);
}

CUresult place_make(struct place *place, size_t pages) {
    TRY(place_create(place, pages));
    return place_map(place);
}

CUresult place_end(struct place *place) {
    TRY(cu.cuMemUnmap(place->at, place->pages * PAGE_BYTES));
    for (size_t i = 0; i < place->pages; i++)
        TRY(cu.cuMemRelease(place->handles[i]));
    return cu.cuMemAddressFree(place->at, place->pages * PAGE_BYTES);
}
