/* proof_file.h: the file of a proof (base/proof.h): written beside its name and renamed, readable
 * by its owner only. */
#pragma once

#include "prove/child.h"

/* False, and why: no proof that counts can be put where they lie. */
bool proof_place(char *why, size_t capacity);

/* False with errno; path is where it was to be. */
bool proof_write(const struct findings *findings, const char *version, char *path, size_t capacity);

/* Tell of, print or remove all proofs; how many there were. share: for a bug tracker, without the
 * lines that tell cards apart. */
size_t proof_each(bool (*visit)(const char *path, bool share), bool share);
size_t proof_show(bool share);
size_t proof_forget(void);

/* Whether a proof of that engine counts for this vramgc. */
bool proof_is_of_ours(unsigned long engine);
