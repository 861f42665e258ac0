/* book.h: the one book of physical handles, of the addresses that PyTorch's caching allocator has
 * reserved for its expandable segments, and of what is mapped there: which handle is whose, how
 * large, on which device; whose a range is, and which handle is behind each part of it. The figures
 * (track/vmm.h), the answers of mode compact (serve/expandable.h) and the page engine all ask here.
 *
 *     a handle    made -> held (references) -> released, none mapped -> out of the book
 *                                         '-> released, mapped: an orphan, by a name of ours,
 *                                             until its last mapping goes
 *     a mapping   mapped -> leaving (a ticket, while the call runs) -> out of the book
 *                   ^------- the driver refused ------'
 *     a range     reserved -> an engine's, at its first mapping -> taken out, while it is freed
 *
 * Invariant: a handle is in the book as long as it has a reference or a mapping, leaving or not.
 * Any thread. Pure: it counts nothing, and asks nobody. */
#pragma once

#include "base/base.h"

/* A virtual handle is a number of ours in the place of physical memory (serve/expandable.h); on
 * x86-64 and AArch64 no pointer has it. It keeps its number as long as it is in the book. */
#define VHANDLE_TAG ((uint64_t)0x7647)

static inline bool vhandle_is(uint64_t handle) {
    return handle >> 48 == VHANDLE_TAG;
}

/* Whose a handle is, from BOOK_LIBRARY_SHIFT on other code's library (callers.h). */
enum {
    BOOK_ALLOCATOR = 1, /* PyTorch's */
    BOOK_IMPORTED = 2,
    BOOK_FOR_STEP = 4, /* made by who answers an allocation of the program's, as comfy-aimdo */
    BOOK_LIBRARY_SHIFT = 8,
};

struct book_handle {
    uint64_t handle, bytes;
    unsigned device, flags;
    uint32_t references, mappings;
};

/* A new one, with one reference; one more to one that is known, or, by an address where it is
 * mapped (else 0), to one that lives on after its release. False: no memory for the book; not
 * known. */
bool book_add(const struct book_handle *made);
bool book_retain(uint64_t handle, uint64_t address);

bool book_find(uint64_t handle, struct book_handle *out);

/* A reference, taken out before cuMemRelease, to be put back should the driver refuse. */
struct book_release {
    struct book_handle of;
    bool known;
    bool gone;       /* the last reference, and nothing is mapped: it is out of the book */
    uint64_t orphan; /* the last one, but it is mapped: the name under which it lives on; or 0 */
};
struct book_release book_release_begin(uint64_t handle);
bool book_release_abort(const struct book_release *release); /* false: no memory for the book */

/* *learnt: of imported memory, whose size shows at its first mapping; else its bytes are 0. False:
 * no memory for the book. */
bool book_map(uint64_t address, uint64_t bytes, uint64_t handle, struct book_handle *learnt);

/* The mappings that an unmap takes out: so many tickets from the first on. */
struct book_unmapping {
    uint64_t address, bytes;
    uint64_t first, count;
};
struct book_unmapping book_unmap_begin(uint64_t address, uint64_t bytes);
void book_unmap_abort(const struct book_unmapping *unmapping);

/* One of them is over. Returns the handle that it had, 0: it is not known. *gone: the memory that
 * went with it, else its handle is 0. */
uint64_t book_unmapped(uint64_t ticket, struct book_handle *gone);

/* The mapping of a virtual handle that holds the address. False: there is none. */
struct book_mapping {
    uint64_t handle;
    unsigned device;
    uint64_t address, bytes;
};
bool book_mapping_at(uint64_t address, struct book_mapping *out);

/* Where a virtual handle is mapped; 0: nowhere. Seldom asked. */
uint64_t book_address_of(uint64_t handle);

/* True: [address, +bytes) is exactly a row of such mappings of that device. */
bool book_is_row(uint64_t address, uint64_t bytes, unsigned device);

/* Memory at the address that other code than PyTorch's allocator made, so that it counts there: 0:
 * none, or BOOK_LENT and what else is known. Then whose it is: *library (callers.h). */
enum { BOOK_LENT = 1, BOOK_FRESH = 2 /* mapped, and not asked for before */ };
unsigned book_lent(uint64_t address, unsigned *library);

/* Addresses that PyTorch's caching allocator has reserved. */
struct book_range {
    uint64_t address, bytes; /* bytes 0: there is none */
    unsigned device;         /* whose heap has it; VRAMGC_MAX_DEVICES: none has */
    unsigned engine;         /* whose page engine has it; VRAMGC_MAX_DEVICES: none yet */
};
bool book_range_put(const struct book_range *range); /* false: no memory for the book */
struct book_range book_range_take(uint64_t address);

/* [address, +bytes) is in a range of that engine from now on; false: in none, or in another's.
 * *range: all of it. */
bool book_range_claim(uint64_t address, uint64_t bytes, unsigned engine, struct book_range *range);
uint64_t book_range_largest_bytes(void); /* so far */

/* Drops what is known of a device; addresses stay reserved. */
void book_reset(unsigned device);
