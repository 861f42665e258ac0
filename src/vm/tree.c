/* tree.c: see tree.h. Priorities are a hash of the key, so that the shape of a tree depends on
 * nothing but what is in it; it must not be asked to keep two nodes of one key. */
#include "vm/tree.h"

#include <stdbool.h>
#include <stddef.h>

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix_key(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static bool is_less(struct tree_key a, struct tree_key b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
}

/* Parts a tree at the key: what is less, and the rest. */
static void split_tree(struct tree_node *node, struct tree_key key, struct tree_node **less,
                       struct tree_node **rest) {
    while (node) {
        if (is_less(node->key, key)) {
            *less = node;
            less = &node->right;
            node = node->right;
        } else {
            *rest = node;
            rest = &node->left;
            node = node->left;
        }
    }
    *less = *rest = NULL;
}

/* All keys of one are less than all of the other. */
static void join_trees(struct tree_node *less, struct tree_node *more, struct tree_node **out) {
    while (less && more) {
        if (less->priority > more->priority) {
            *out = less;
            out = &less->right;
            less = less->right;
        } else {
            *out = more;
            out = &more->left;
            more = more->left;
        }
    }
    *out = less ? less : more;
}

void tree_insert(struct tree *tree, struct tree_node *node, struct tree_key key) {
    struct tree_node **link = &tree->root;
    node->key = key;
    node->priority = mix_key(key.first + mix_key(key.second));
    while (*link && (*link)->priority >= node->priority)
        link = is_less((*link)->key, key) ? &(*link)->right : &(*link)->left;
    struct tree_node *below = *link;
    *link = node;
    split_tree(below, key, &node->left, &node->right);
}

void tree_remove(struct tree *tree, struct tree_node *node) {
    struct tree_node **link = &tree->root;
    while (*link != node)
        link = is_less((*link)->key, node->key) ? &(*link)->right : &(*link)->left;
    join_trees(node->left, node->right, link);
}

struct tree_node *tree_at_least(const struct tree *tree, struct tree_key key) {
    struct tree_node *found = NULL;
    for (struct tree_node *node = tree->root; node;) {
        bool less = is_less(node->key, key);
        found = less ? found : node;
        node = less ? node->right : node->left;
    }
    return found;
}
