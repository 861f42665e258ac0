/* stubs.c: which function each stub of stubs.S leads to. It finds what the loader would have found
 * without us, and decides nothing. */
#include "hook/stubs.h"

#include "base/text.h"
#include "cuda/objects.h"
#include "cuda/real.h"
#include "store/store.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

_Static_assert(offsetof(struct vramgc_file, parker) == STUB_PARKER &&
                   offsetof(struct vramgc_file, entered) == STUB_ENTERED,
               "stubs.S finds them there");

#define STUB(name) NOWHERE(name),
static const char *const absent[] = {
#include "stubs.def"
};
#undef STUB

enum { NAMED = ARRAY_LENGTH(absent), STUBS = NAMED + STUB_SPARE };

extern const char hook_stubs[];
void hook_stub_unbound(void);
void *hook_stub_bind(unsigned number);

/* Of those that have a name: unbound until their first call by it. */
#define STUB(name) (void *)hook_stub_unbound,
_Atomic(void *) hook_stub_targets[STUBS] = {
#include "stubs.def"
};
#undef STUB

static CUresult missing(void) {
    return CUDA_ERROR_NOT_FOUND;
}

void *hook_stub_bind(unsigned number) {
    char name[64];
    text_copy(name, sizeof name, absent[number]);
    *strchrnul(name, ' ') = 0;
    void *function = real_search(CUDA, name, NULL);
    /* In a forked child the loader's list is not read any more (objects_freeze). */
    function = function ? function : real_dlsym(RTLD_NEXT, name);
    if (!function || objects_own(function))
        return (void *)missing;
    atomic_store_explicit(&hook_stub_targets[number], function, memory_order_release);
    return function;
}

void hook_stubs_forget(void) {
    for (unsigned i = 0; i < NAMED; i++)
        atomic_store_explicit(&hook_stub_targets[i], (void *)hook_stub_unbound,
                              memory_order_release);
}

void *hook_stub_of(void *function) {
    if (!function || objects_own(function))
        return function;
    for (unsigned i = NAMED; i < STUBS; i++) { /* the first that has it, or is free */
        void *has = atomic_load_explicit(&hook_stub_targets[i], memory_order_acquire);
        if (has ? has == function
                : atomic_compare_exchange_strong(&hook_stub_targets[i], &has, function))
            return (void *)(hook_stubs + (size_t)STUB_BYTES * i);
    }
    figure_add(&store_file()->process.internal_errors, 1);
    return function;
}

/* The number of the exported stub of that name; NAMED: there is none. */
static size_t number_of_stub(const char *name) {
    size_t i = 0, length = strlen(name);
    while (i < NAMED && (strncmp(absent[i], name, length) != 0 || absent[i][length] != ' '))
        i++;
    return i;
}

/* For RTLD_DEFAULT the real dlsym answers: what it finds depends on which object asks. */
void *hook_stub_lookup(void *handle, const char *name, const char **name_slot) {
    if (name[0] != 'c' || name[1] != 'u' || !isupper((unsigned char)name[2]))
        return NULL;
    void *found = real_ask_next(handle, name);
    if (found && objects_own(found)) {
        size_t i = number_of_stub(name);
        if (i < NAMED && !real_search(CUDA, name, NULL))
            *name_slot = absent[i];
        return NULL;
    }
    return handle != RTLD_DEFAULT && objects_inside(found, "libcuda.so") ? hook_stub_of(found)
                                                                         : NULL;
}
