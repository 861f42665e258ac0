/* check.c: see check.h. */
#include "prove/check.h"

#include "prove/pattern.h"

#include <stdarg.h>
#include <stdio.h>

enum form check_form;
bool check_faults;
size_t check_spare_bytes;

enum outcome check_refused(struct text *said, const char *call, CUresult result) {
    text_format(said, "%s answered %s", call, driver_error_name(result));
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

enum outcome check_patterns(struct text *said) {
    uint64_t wrong = 0;
    CUresult result = pattern_wrong(&wrong);
    if (result != CUDA_SUCCESS)
        return check_refused(said, "cuCtxSynchronize", result);
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
    CUresult result = cu.cuMemAddressReserve(&place->at, pages * PAGE_BYTES, 0, 0, 0);
    place->pages = pages;
    for (size_t i = 0; i < pages && result == CUDA_SUCCESS; i++)
        result = cu.cuMemCreate(&place->handles[i], PAGE_BYTES, &properties, 0);
    return result;
}

CUresult place_map(struct place *place) {
    CUmemAccessDesc access = place_access();
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < place->pages && result == CUDA_SUCCESS; i++)
        result = cu.cuMemMap(place->at + i * PAGE_BYTES, PAGE_BYTES, 0, place->handles[i], 0);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemSetAccess(place->at, place->pages * PAGE_BYTES, &access, 1);
    return result;
}

CUresult place_make(struct place *place, size_t pages) {
    CUresult result = place_create(place, pages);
    return result == CUDA_SUCCESS ? place_map(place) : result;
}

CUresult place_end(struct place *place) {
    CUresult result = cu.cuMemUnmap(place->at, place->pages * PAGE_BYTES);
    for (size_t i = 0; i < place->pages && result == CUDA_SUCCESS; i++)
        result = cu.cuMemRelease(place->handles[i]);
    return result == CUDA_SUCCESS ? cu.cuMemAddressFree(place->at, place->pages * PAGE_BYTES)
                                  : result;
}
