/* tree.h: a balanced search tree (a treap) of nodes that live inside what they stand for. Pure; it
 * takes no memory of its own, so nothing here can fail. */
#pragma once

#include <stdint.h>

struct tree_key {
    uint64_t first, second; /* compared in this order; unique within a tree */
};

struct tree_node {
    struct tree_key key; /* must not change while the node is in a tree */
    uint64_t priority;
    struct tree_node *left, *right;
};

struct tree {
    struct tree_node *root;
};

/* The node must not be in any tree. Its key is set here. O(log n) expected, as all of these. */
void tree_insert(struct tree *tree, struct tree_node *node, struct tree_key key);

/* The node must be in this tree. */
void tree_remove(struct tree *tree, struct tree_node *node);

/* The node with the smallest key that is not less than this one; NULL: none. */
struct tree_node *tree_at_least(const struct tree *tree, struct tree_key key);
