/* real.h: the real functions behind the hooks, typed and resolved once. A real function is found
 * where the loader would have found it without us; nothing is linked. Resolving has no side effect
 * but opening what is already loaded. Must not know what a hook does. */
#pragma once

#include "base/base.h"
#include "cuda/cuda_api.h"

enum real_id {
#define HOOK(library, result, symbol, parameters, arguments) ID_##symbol,
#define PASS                                                 HOOK
#define NEED                                                 HOOK
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED
    REAL_COUNT
};

#define HOOK(library, result, symbol, parameters, arguments)                                       \
    typedef result(*real_##symbol##_t) parameters;
#define PASS HOOK
#define NEED HOOK
#include "hooks.def"
#undef HOOK
#undef PASS
#undef NEED

/* Streams by handle, as numbers. These two, and 0, are in every context: the legacy default stream,
 * and that of the calling thread, another one in each. No program makes or destroys them. */
#define STREAM_LEGACY     ((uint64_t)(uintptr_t)CU_STREAM_LEGACY)
#define STREAM_PER_THREAD ((uint64_t)(uintptr_t)CU_STREAM_PER_THREAD)

enum real_library { CUDART, CUDA, C10, TORCH, AIMDO };
enum real_kind { REAL_HOOK, REAL_PASS, REAL_NEED };

struct real_info {
    const char *symbol;
    enum real_library library;
    enum real_kind kind;
};

extern const struct real_info real_table[REAL_COUNT];
extern _Atomic(void *) real_pointers[REAL_COUNT];

/* The real function, or NULL when no loaded library has it. Any thread. Waits for the loader only
 * when it is not known and something was loaded since it was last looked for. */
void *real_find(enum real_id id);

/* The same of a function that the table has not, looked for each time. *below, which may be NULL,
 * becomes what the library itself has, where another interposer stands in between. */
void *real_search(enum real_library library, const char *symbol, _Atomic(void *) *below);

static inline void *real_get(enum real_id id) {
    void *p = atomic_load_explicit(&real_pointers[id], memory_order_acquire);
    return LIKELY(p != NULL) ? p : real_find(id);
}

/* The function of exactly this loaded object, or NULL; it is valid as long as that stays loaded.
 * May wait for the loader. */
void *real_in_object(const char *path, const char *symbol);

/* The typed real function; may be NULL. */
#define REAL(symbol) ((real_##symbol##_t)real_get(ID_##symbol))

/* The context that is current in this thread, NULL: none. A call that is refused once is made
 * again. False: it cannot be found out. */
static inline bool real_current_context(CUcontext *context) {
    real_cuCtxGetCurrent_t get = REAL(cuCtxGetCurrent);
    return get && (get(context) == CUDA_SUCCESS || get(context) == CUDA_SUCCESS);
}

/* Looks for all that are not known, if something was loaded since the last time. For where the
 * loader may be waited for: then no hook has to. */
void real_find_all(void);

/* The program found `pointer` by name: it is taken as the real function of id if none is known and
 * it lies in the library that should have it; other libraries export such names, too, and go again.
 * Returns whether it is one that is known. May wait for the loader. */
bool real_offer(enum real_id id, void *pointer);

/* The id whose real function is `pointer`, or REAL_COUNT. */
enum real_id real_of_pointer(const void *pointer);

/* The id of a hooked symbol (HOOK or PASS), or REAL_COUNT. name is not NULL. */
enum real_id real_of_symbol(const char *name);

/* Finds all hooked functions of the driver, so that real_of_pointer knows them. Once is enough. */
void real_find_driver(void);

/* Forgets what lies in objects that were closed: a program may look at a driver that is a stub, and
 * open the true one afterwards. True: something was unloaded since the last time. */
bool real_forget_closed(void);

/* The driver stays loaded from now on: cuInit succeeded, so that it is the true one, and our
 * threads call it. May wait for the loader. */
void real_pin_driver(void);

int real_dlclose(void *handle);

/* The C library's own dlsym, whatever is hooked. */
void *real_dlsym(void *handle, const char *name);

/* The dlsym that a caller would have got without us: the C library's, or that of another interposer
 * behind us; and what it answers. */
void *real_next_dlsym(void);
void *real_ask_next(void *handle, const char *name);

/* --- which CUDA runtime a caller was linked with, where more than one is loaded. Our symbols carry
 * no version, so the calls of all of them come to us, and each must go on to its own. --- */

/* The real function of the runtime that the object with the code address `caller` is linked with;
 * `usual` is what real_get(id) says, which is right for all others. A few compares; the first call
 * out of each object reads the loader's list, and waits for the loader only if that object needs
 * another runtime than the usual one. */
void *runtimes_choose(enum real_id id, const void *caller, void *usual);

/* Forgets what was learnt of objects that were closed. */
void runtimes_forget_closed(void);

/* --- whether a program that maps memory itself gets all functions for that from us --- */

/* All that the driver has of them, in whatever form: if only some were ours, a virtual handle
 * would reach the driver. Asked once; a question in vain leaves nothing behind. No lock is held. */
bool vmm_entries_are_ours(void);

/* True: another interposer stands behind us that answers for cudaMalloc or cuMemAlloc, as quota
 * libraries do, and not for cuMemCreate: calls that map memory go round it. Then its file's name is
 * in out, else "". May wait for the loader. */
bool vmm_entries_pass_by(char *out, size_t capacity);
