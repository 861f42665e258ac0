/* allocator.h: the allocator that answers this process's malloc, and its one call that gives free
 * memory back to the system. It is found among the functions of the object that malloc belongs to,
 * never assumed.
 *
 *     the program works --half a second at rest, enough to gain--> released, piece by piece
 *            ^------- it works again: what it maps anew is waited for by the next release ---'
 *
 * The invariant: no function is called of an allocator that has not the program's memory. For a
 * thread of our own: the call may hold the allocator's locks for as long as it takes, and what
 * finds it may wait for the loader. */
#pragma once

#include "policy/policy.h"

/* "glibc", "tcmalloc", "jemalloc", "mimalloc"; NULL: none that is known. Looks once. */
const char *host_allocator_name(void);

/* The function that gives it back, as it is called; NULL: none. */
const char *host_allocator_call(void);

/* How much the program has from it, and how much it keeps for who asks next; all 0: it does not
 * tell (mimalloc, glibc before 2.33). It may take as long as a release does: glibc counts its free
 * pieces one by one. */
struct host_has host_allocator_has(void);

/* Has it give back what it can within so long; glibc's and mimalloc's cannot be stopped and may
 * take longer. False: there is more. */
bool host_allocator_release(uint64_t budget_ns);
