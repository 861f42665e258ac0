/* vmm_entries.h: whether a program that maps memory itself gets all functions for that from us. */
#pragma once

#include "base/base.h"

/* All of those that the driver has, in whatever form: if only some were ours, a virtual handle
 * would reach the driver. Asked once; a question in vain leaves nothing behind. No lock is held. */
bool vmm_entries_are_ours(void);

/* Whether another interposer stands behind us that answers for cudaMalloc or cuMemAlloc, as quota
 * libraries do, and not for cuMemCreate: calls that map memory go round it. Then its file's name is
 * in out, else "". May wait for the loader. */
bool vmm_entries_pass_by(char *out, size_t capacity);
