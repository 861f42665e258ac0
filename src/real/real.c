/* real.c: see real.h. It must never find our own wrapper and take it for the real function. */
#include "real/real.h"
#include "real/objects.h"

#include <dlfcn.h>
#include <string.h>

const struct real_info real_table[REAL_COUNT] = {
#define HOOK(library, result, symbol, parameters, arguments)                                       \
    [ID_##symbol] = {#symbol, library, REAL_HOOK},
#define PASS(library, result, symbol, parameters, arguments)                                       \
    [ID_##symbol] = {#symbol, library, REAL_PASS},
#define NEED(library, result, symbol, parameters, arguments)                                       \
    [ID_##symbol] = {#symbol, library, REAL_NEED},
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED
};

_Atomic(void *) real_pointers[REAL_COUNT];

typedef void *(*dlsym_t)(void *, const char *);

/* glibc has had dlsym under several versions; the newest that is there is the one in use. */
void *real_dlsym_address(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    static _Atomic(void *) found;
    void *p = atomic_load_explicit(&found, memory_order_acquire);
    for (size_t i = 0; !p && i < ARRAY_LENGTH(versions); i++)
        p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    atomic_store_explicit(&found, p, memory_order_release);
    return p;
}

void *real_dlsym(void *handle, const char *name) {
    void *p = real_dlsym_address();
    if (!p)
        return NULL;
    /* Not a tail call: RTLD_NEXT looks at who called, and that must be this object. */
    void *volatile result = ((dlsym_t)p)(handle, name);
    return result;
}

static bool is_ours(const void *p) {
    return p && objects_own(p);
}

static void *from_object(const char *path, const char *symbol) {
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *p = handle ? real_dlsym(handle, symbol) : NULL;
    return is_ours(p) ? NULL : p;
}

static void *search(enum real_library library, const char *symbol) {
    static const char *const stem[] = {
        [CUDART] = "libcudart", [CUDA] = "libcuda.so", [C10] = "libc10.so"};
    char path[512];
    void *p = NULL;
    if (library == CUDART) {
        p = real_dlsym(RTLD_NEXT, symbol);
        if (p && !is_ours(p))
            return p;
        p = NULL;
    }
    for (unsigned nth = 0; !p && objects_path(stem[library], nth, path, sizeof path); nth++)
        p = from_object(path, symbol);
    return p;
}

void *real_find(enum real_id id) {
    void *p = search(real_table[id].library, real_table[id].symbol);
    if (p)
        real_offer(id, p);
    return atomic_load_explicit(&real_pointers[id], memory_order_acquire);
}

bool real_offer(enum real_id id, void *pointer) {
    void *known = NULL;
    if (!pointer || is_ours(pointer))
        return false;
    return atomic_compare_exchange_strong(&real_pointers[id], &known, pointer) || known == pointer;
}

enum real_id real_of_pointer(const void *pointer) {
    for (int id = 0; pointer && id < REAL_COUNT; id++)
        if (real_table[id].kind != REAL_NEED &&
            atomic_load_explicit(&real_pointers[id], memory_order_acquire) == pointer)
            return (enum real_id)id;
    return REAL_COUNT;
}

enum real_id real_of_symbol(const char *name) {
    if (name[0] != 'c' || name[1] != 'u')
        return REAL_COUNT;
    for (int id = 0; id < REAL_COUNT; id++)
        if (real_table[id].kind != REAL_NEED && strcmp(real_table[id].symbol, name) == 0)
            return (enum real_id)id;
    return REAL_COUNT;
}

void real_find_driver(void) {
    static atomic_bool done;
    if (LIKELY(atomic_load_explicit(&done, memory_order_acquire)))
        return;
    for (int id = 0; id < REAL_COUNT; id++)
        if (real_table[id].library == CUDA && real_table[id].kind != REAL_NEED)
            real_get((enum real_id)id);
    atomic_store_explicit(&done, true, memory_order_release);
}
