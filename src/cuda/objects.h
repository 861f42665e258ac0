/* objects.h: which shared objects are loaded and where. Reads the loader's list only; takes no lock
 * that is held while constructors run, so it may be called inside a hook. Any thread may call each,
 * but none from inside dl_iterate_phdr. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object_range {
    uintptr_t start, end; /* all zero: not loaded */
};

/* The path of the nth loaded object whose file name begins with stem. False: there is none. */
bool objects_path(const char *stem, unsigned nth, char *path, size_t capacity);

/* How many objects were ever loaded: while it stays the same, nothing new can be found. */
unsigned long long objects_changes(void);

/* How many objects were ever unloaded: while it stays the same, nothing known has gone. */
unsigned long long objects_unloads(void);

/* Around a fork, so that no thread of ours leaves the loader's list locked in the child. */
void objects_before_fork(void);
void objects_after_fork(void);

/* For a forked child in which CUDA does not work: from now on the list is not read any more, for
 * another thread of the parent may have left it locked. What was found stays, nothing new is found,
 * and nothing counts as unloaded. */
void objects_freeze(void);

/* True: the address lies in a loaded object. */
bool objects_loaded(uintptr_t address);

/* Sets to NULL each of the pointers, of which there are at most 256, that lies in no loaded object.
 * True: there was one. */
bool objects_drop_unloaded(_Atomic(void *) *pointers, size_t count);

/* The object that holds the address stays loaded from now on. May wait for the loader. */
void objects_pin(const void *address);

/* The addresses of the loaded object whose file name begins with stem. */
struct object_range objects_range(const char *stem);

/* True: the address lies in a loaded object whose file name begins with stem. */
bool objects_inside(const void *address, const char *stem);

/* An object and the one that it was linked with. */
struct object_link {
    struct object_range object, needed; /* needed all zero: it was linked with none, or it is not
                                           loaded */
    char needed_path[512];
};

/* Finds the object that holds the address, and the loaded object whose name begins with stem that
 * it needs. False, with *link unchanged: the address belongs to no object. */
bool objects_link(const void *address, const char *stem, struct object_link *link);

/* Where the loaded object that holds the address lies, and its path: empty for the program itself.
 * False: there is none. */
bool objects_at(const void *address, struct object_range *range, char *path, size_t capacity);

/* True: the address lies in libvramgc.so itself. */
bool objects_own(const void *address);

/* True: the code address belongs to libc10_cuda.so, where PyTorch's caching allocator lives. One
 * compare once the object is known; the object is looked for again while it is not. */
bool objects_in_allocator(const void *address);

/* Writes "symbol+offset (object)" for a code address; for our own thread only (may wait for the
 * loader). */
void objects_describe(const void *address, char *out, size_t capacity);
