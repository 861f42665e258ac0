/* An ordered map of address ranges that do not overlap, as an intrusive treap. Insertion, removal
 * and search take O(log n); it never allocates and knows nothing about what the ranges mean. */
#ifndef SIM_RANGES_H
#define SIM_RANGES_H

#include <stddef.h>
#include <stdint.h>

struct range {
    uintptr_t base;
    size_t size_bytes;
    struct range *left, *right;
    uint32_t weight;
};

/* The range with the greatest base that is not above address, or NULL. */
struct range *ranges_floor(struct range *root, uintptr_t address);
/* The range with the smallest base above address, or NULL. */
struct range *ranges_above(struct range *root, uintptr_t address);
/* The range that contains address, or NULL. */
struct range *ranges_find(struct range *root, uintptr_t address);
/* The first range that shares a byte with [base, base + size_bytes), or NULL. */
struct range *ranges_overlap(struct range *root, uintptr_t base, size_t size_bytes);
void ranges_insert(struct range **root, struct range *range);
void ranges_remove(struct range **root, struct range *range);

#endif
