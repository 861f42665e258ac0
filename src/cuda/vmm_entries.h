/* vmm_entries.h: whether a program that maps memory itself gets all functions for that from us. */
#ifndef VMM_ENTRIES_H
#define VMM_ENTRIES_H

#include "base/base.h"

/* All of those that the driver has, in whatever form: if only some were ours, a virtual handle
 * would reach the driver. Asked once; a question in vain leaves nothing behind. No lock is held. */
bool vmm_entries_are_ours(void);

#endif
