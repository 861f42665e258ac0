/* costs.c: see costs.h. No number here is a guess about a card: those stand in costs.def. */
#include "vm/costs.h"

#include "base/base.h"
#include "vm/page_table.h"

#include <string.h>

static const struct costs rows[] = {
#define CARD(...) {__VA_ARGS__},
#include "vm/costs.def"
#undef CARD
};

#define SOME_BYTES  (128 * MEBIBYTE)
#define LOST_PART   ((uint64_t)200)
#define SHORTEST_NS (100 * MILLISECOND_NS)
#define LONGEST_NS  (5 * SECOND_NS)

const struct costs *costs_of(const char *name) {
    for (size_t i = 0; name && i < ARRAY_LENGTH(rows); i++)
        if (strstr(name, rows[i].card))
            return &rows[i];
    return &rows[0];
}

/* How long memory must stay cached that costs so much a page to create again. */
static uint64_t patience(uint64_t page_ns) {
    uint64_t ns = SOME_BYTES / PAGE_BYTES * page_ns * LOST_PART;
    return min_u64(max_u64(ns, SHORTEST_NS), LONGEST_NS);
}

/* The smallest with which all calls for a page, from create to release, take no more than this. A
 * call costs nearly the same for any size, so that a larger extent shares it among more pages. 5 us
 * for 2 MiB are 25 ms for 10 GiB, about what cudaMalloc takes for as much in PyTorch's sizes. */
static size_t largest_extent(uint64_t page_ns) {
    const uint64_t bearable_ns = 5000;
    size_t size = 0;
    while (size + 1 < EXTENT_SIZES && page_ns / extent_npages[size] > bearable_ns)
        size++;
    return extent_npages[size];
}

struct plan costs_plan(const struct costs *costs) {
    uint64_t physical = costs->create + costs->release;
    uint64_t place = costs->map + costs->access + costs->unmap;
    return (struct plan){
        .largest_extent = largest_extent(physical + place),
        .cache_ns = patience(physical),
        .retain_ns = patience(physical + place),
    };
}
