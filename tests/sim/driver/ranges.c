/* See ranges.h. The treap is kept in shape by a random weight for each range; recursion is as deep
 * as the tree, that is some 50 levels for a million ranges. */
#include "ranges.h"

static uint32_t random_weight(void) {
    static uint32_t state = 2463534242u; /* xorshift32; callers hold the driver's lock. */
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

struct range *ranges_floor(struct range *root, uintptr_t address) {
    struct range *best = NULL;
    while (root != NULL) {
        if (root->base <= address) {
            best = root;
            root = root->right;
        } else {
            root = root->left;
        }
    }
    return best;
}

struct range *ranges_above(struct range *root, uintptr_t address) {
    struct range *best = NULL;
    while (root != NULL) {
        if (root->base > address) {
            best = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return best;
}

struct range *ranges_find(struct range *root, uintptr_t address) {
    struct range *range = ranges_floor(root, address);
    return range != NULL && address - range->base < range->size_bytes ? range : NULL;
}

struct range *ranges_overlap(struct range *root, uintptr_t base, size_t size_bytes) {
    struct range *range = ranges_find(root, base);
    if (range != NULL)
        return range;
    range = ranges_above(root, base);
    return range != NULL && range->base - base < size_bytes ? range : NULL;
}

static void split(struct range *root, uintptr_t address, struct range **low, struct range **high) {
    if (root == NULL) {
        *low = *high = NULL;
    } else if (root->base < address) {
        split(root->right, address, &root->right, high);
        *low = root;
    } else {
        split(root->left, address, low, &root->left);
        *high = root;
    }
}

static struct range *merge(struct range *low, struct range *high) {
    if (low == NULL || high == NULL)
        return low != NULL ? low : high;
    if (low->weight > high->weight) {
        low->right = merge(low->right, high);
        return low;
    }
    high->left = merge(low, high->left);
    return high;
}

void ranges_insert(struct range **root, struct range *range) {
    range->weight = random_weight();
    while (*root != NULL && (*root)->weight >= range->weight)
        root = range->base < (*root)->base ? &(*root)->left : &(*root)->right;
    split(*root, range->base, &range->left, &range->right);
    *root = range;
}

void ranges_remove(struct range **root, struct range *range) {
    while (*root != range)
        root = range->base < (*root)->base ? &(*root)->left : &(*root)->right;
    *root = merge(range->left, range->right);
}
