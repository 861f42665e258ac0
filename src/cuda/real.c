/* real.c: see real.h. It must never find our own wrapper and take it for the real function. */
#include "cuda/real.h"

#include "base/text.h"
#include "cuda/objects.h"

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

/* Nothing that is loaded later can bring it. */
#define FOR_EVER (~0ull)

static struct {
    /* The library's own function, where another interposer stands between it and us. */
    _Atomic(void *) beneath[REAL_COUNT];
    /* objects_changes() when it was last looked for in vain; 0: never. */
    _Atomic unsigned long long missing[REAL_COUNT];
    _Atomic unsigned long long looked;  /* objects_changes() when all were last looked for */
    _Atomic unsigned long long unloads; /* objects_unloads() when what was closed was forgotten */
    atomic_bool driver_known, driver_pinned;
} self;

typedef void *(*dlsym_t)(void *, const char *);

/* glibc has had dlsym under several versions; the newest that is there is the one in use. */
static void *c_library_dlsym(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    static _Atomic(void *) found;
    void *p = atomic_load_explicit(&found, memory_order_acquire);
    for (size_t i = 0; !p && i < ARRAY_LENGTH(versions); i++)
        p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    atomic_store_explicit(&found, p, memory_order_release);
    return p;
}

/* Not a tail call: RTLD_NEXT looks at who called, and that must be this object. */
static void *ask_dlsym(void *p, void *handle, const char *name) {
    void *volatile result = p ? ((dlsym_t)p)(handle, name) : NULL;
    return result;
}

void *real_dlsym(void *handle, const char *name) {
    return ask_dlsym(c_library_dlsym(), handle, name);
}

static bool is_own_wrapper(const void *p) {
    return p && objects_own(p);
}

/* dlvsym passes by those who define dlsym without a version. */
void *real_next_dlsym(void) {
    static _Atomic(void *) found;
    void *p = atomic_load_explicit(&found, memory_order_acquire);
    if (!p) {
        p = real_dlsym(RTLD_NEXT, "dlsym");
        p = p && !is_own_wrapper(p) ? p : c_library_dlsym();
        atomic_store_explicit(&found, p, memory_order_release);
    }
    return p;
}

void *real_ask_next(void *handle, const char *name) {
    return ask_dlsym(real_next_dlsym(), handle, name);
}

int real_dlclose(void *handle) {
    static _Atomic(void *) found;
    void *p = atomic_load_explicit(&found, memory_order_acquire);
    if (!p)
        atomic_store_explicit(&found, p = real_dlsym(RTLD_NEXT, "dlclose"), memory_order_release);
    return p ? ((int (*)(void *))p)(handle) : -1;
}

static void *in_object(const char *path, const char *symbol, void *dlsym_asked) {
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *p = handle ? ask_dlsym(dlsym_asked, handle, symbol) : NULL;
    if (handle)
        real_dlclose(handle); /* so that the program's own dlclose unloads it */
    return p;
}

void *real_in_object(const char *path, const char *symbol) {
    void *p = in_object(path, symbol, c_library_dlsym());
    return is_own_wrapper(p) ? NULL : p;
}

static bool take_pointer(enum real_id id, void *pointer) {
    void *known = NULL;
    return atomic_compare_exchange_strong(&real_pointers[id], &known, pointer) || known == pointer;
}

static const char *const stems[] = {[CUDART] = "libcudart",
                                    [CUDA] = "libcuda.so",
                                    [C10] = "libc10.so",
                                    [TORCH] = "libtorch_cuda.so",
                                    [AIMDO] = "aimdo"};

static void *of_library(enum real_library library, const char *symbol, void *dlsym_asked) {
    char path[512];
    void *p = NULL;
    for (unsigned nth = 0; !p && objects_path(stems[library], nth, path, sizeof path); nth++)
        p = in_object(path, symbol, dlsym_asked);
    return p;
}

/* Another interposer of the driver finds the real one with RTLD_NEXT, as we do: that works only
 * where the driver was linked or opened RTLD_GLOBAL. Elsewhere no call reached that interposer
 * without us, and it may have nothing to pass the call on to. */
static bool driver_is_global(void) {
    struct object_range driver = objects_range(stems[CUDA]);
    uintptr_t p = (uintptr_t)real_dlsym(RTLD_NEXT, "cuGetErrorName");
    return p >= driver.start && p < driver.end;
}

/* Without us the loader would have bound the caller to this. */
static void *next_in_scope(enum real_library library, const char *symbol) {
    void *p = real_dlsym(RTLD_NEXT, symbol);
    return !p || is_own_wrapper(p) || (library == CUDA && !driver_is_global()) ? NULL : p;
}

/* A library that hooks dlsym behind us, as quota libraries do, answers for a library with functions
 * of its own: those the caller would have got without us. It may mean its own and find ours, which
 * have the same names and come first. */
static void *of_other_dlsym(enum real_library library, const char *symbol) {
    void *other = real_next_dlsym();
    void *p = other == c_library_dlsym() ? NULL : of_library(library, symbol, other);
    p = is_own_wrapper(p) ? real_dlsym(RTLD_NEXT, symbol) : p;
    return is_own_wrapper(p) ? NULL : p;
}

void *real_search(enum real_library library, const char *symbol, _Atomic(void *) *below) {
    void *beneath = of_library(library, symbol, c_library_dlsym());
    void *next = next_in_scope(library, symbol);
    if (!next)
        next = of_other_dlsym(library, symbol);
    if (next && beneath && below && !objects_inside(next, stems[library]))
        atomic_store_explicit(below, beneath, memory_order_release);
    return next ? next : beneath;
}

/* The loader is asked again only when something was loaded since: asking waits for the loader's
 * lock, and replaces the caller's dlerror(). */
void *real_find(enum real_id id) {
    unsigned long long changes = objects_changes();
    unsigned long long missing = atomic_load_explicit(&self.missing[id], memory_order_relaxed);
    if (missing == FOR_EVER || missing == changes)
        return NULL;
    /* Before the search: another thread may load the driver after it. */
    bool driver_lacks_it = real_table[id].library == CUDA && objects_range(stems[CUDA]).end != 0;
    void *p = real_search(real_table[id].library, real_table[id].symbol, &self.beneath[id]);
    if (p)
        take_pointer(id, p);
    else
        atomic_store_explicit(&self.missing[id], driver_lacks_it ? FOR_EVER : changes,
                              memory_order_relaxed);
    return atomic_load_explicit(&real_pointers[id], memory_order_acquire);
}

void real_find_all(void) {
    unsigned long long changes = objects_changes();
    if (changes == atomic_load_explicit(&self.looked, memory_order_relaxed))
        return;
    for (int id = 0; id < REAL_COUNT; id++)
        real_get((enum real_id)id);
    atomic_store_explicit(&self.looked, changes, memory_order_relaxed);
}

/* Where others interpose, what is found by a handle is the library's own. */
bool real_offer(enum real_id id, void *pointer) {
    if (!pointer || is_own_wrapper(pointer))
        return false;
    bool known = atomic_load_explicit(&real_pointers[id], memory_order_acquire) == pointer;
    return known ||
           (objects_inside(pointer, stems[real_table[id].library]) && take_pointer(id, pointer)) ||
           atomic_load_explicit(&self.beneath[id], memory_order_acquire) == pointer;
}

/* The library's own function, should another interposer stand between us and it; NULL while
 * real_get has not found any. */
static void *real_beneath(enum real_id id) {
    void *p = atomic_load_explicit(&self.beneath[id], memory_order_acquire);
    return p ? p : atomic_load_explicit(&real_pointers[id], memory_order_acquire);
}

enum real_id real_of_pointer(const void *pointer) {
    for (int id = 0; pointer && id < REAL_COUNT; id++)
        if (real_table[id].kind != REAL_NEED &&
            (atomic_load_explicit(&real_pointers[id], memory_order_acquire) == pointer ||
             atomic_load_explicit(&self.beneath[id], memory_order_acquire) == pointer))
            return (enum real_id)id;
    return REAL_COUNT;
}

/* Every dlsym of the process for a name in cu... comes here, so the hooked names are found by a
 * hash. The table is filled at the first question, perhaps by several threads at once: all do the
 * same steps, so each finds what it wants to put, or nothing. */
enum { NAME_SLOTS = 512 };
_Static_assert(REAL_COUNT * 2 < NAME_SLOTS && REAL_COUNT < UINT8_MAX, "the table is half empty");

static struct {
    atomic_bool filled;
    _Atomic uint8_t slots[NAME_SLOTS]; /* 1 + id; 0: empty */
} names;

/* The slot that has the name, or the empty one where it would be. */
static unsigned slot_of_name(const char *name) {
    for (unsigned slot = text_hash(name) % NAME_SLOTS;; slot = (slot + 1) % NAME_SLOTS) {
        unsigned taken = atomic_load_explicit(&names.slots[slot], memory_order_relaxed);
        if (!taken || strcmp(real_table[taken - 1].symbol, name) == 0)
            return slot;
    }
}

static void fill_names(void) {
    for (int id = 0; id < REAL_COUNT; id++)
        if (real_table[id].kind != REAL_NEED && real_table[id].library != C10)
            atomic_store_explicit(&names.slots[slot_of_name(real_table[id].symbol)],
                                  (uint8_t)(id + 1), memory_order_relaxed);
    atomic_store_explicit(&names.filled, true, memory_order_release);
}

enum real_id real_of_symbol(const char *name) {
    if (strncmp(name, "cu", 2) != 0 && strncmp(name, "malloc_graph", 12) != 0)
        return REAL_COUNT;
    if (UNLIKELY(!atomic_load_explicit(&names.filled, memory_order_acquire)))
        fill_names();
    unsigned taken = atomic_load_explicit(&names.slots[slot_of_name(name)], memory_order_relaxed);
    return taken ? (enum real_id)(taken - 1) : REAL_COUNT;
}

void real_find_driver(void) {
    if (LIKELY(atomic_load_explicit(&self.driver_known, memory_order_acquire)))
        return;
    for (int id = 0; id < REAL_COUNT; id++)
        if (real_table[id].library == CUDA && real_table[id].kind != REAL_NEED)
            real_get((enum real_id)id);
    atomic_store_explicit(&self.driver_known, true, memory_order_release);
}

bool real_forget_closed(void) {
    _Static_assert(REAL_COUNT <= 256, "objects_drop_unloaded takes so many");
    unsigned long long unloads = objects_unloads();
    if (LIKELY(unloads == atomic_load_explicit(&self.unloads, memory_order_acquire)))
        return false;
    bool dropped = objects_drop_unloaded(real_pointers, REAL_COUNT);
    objects_drop_unloaded(self.beneath, REAL_COUNT);
    for (int id = 0; dropped && id < REAL_COUNT; id++) /* another driver may have it */
        atomic_store_explicit(&self.missing[id], 0, memory_order_relaxed);
    if (dropped) {
        atomic_store_explicit(&self.looked, 0, memory_order_relaxed);
        atomic_store_explicit(&self.driver_known, false, memory_order_release);
    }
    atomic_store_explicit(&self.unloads, unloads, memory_order_release);
    return true;
}

void real_pin_driver(void) {
    if (atomic_load_explicit(&self.driver_pinned, memory_order_acquire))
        return;
    struct object_range driver = objects_range(stems[CUDA]);
    objects_pin((const void *)driver.start);
    atomic_store_explicit(&self.driver_pinned, driver.end != 0, memory_order_release);
}

/* --- several runtimes. No lock is taken: hooks of many threads come here, and a fork may come at
 * any moment. --- */

/* Objects with code that calls the runtime: PyTorch 2.15 has six, its wheels about twenty libraries
 * more. Runtimes beside PyTorch's: an extension or two that were linked with their own. PAGE: of
 * the host's memory, in which objects are mapped. */
enum { CALLERS = 64, RUNTIMES = 3, PAGE = 4096 };

/* end is set last. */
struct caller {
    uintptr_t start;
    bool is_object;   /* not code that was made at run time */
    unsigned runtime; /* 0: the usual one; else 1 more than its number in `others` */
    _Atomic uintptr_t end;
};

struct runtime {
    _Atomic uintptr_t start; /* of its object */
    _Atomic(void *) pointers[REAL_COUNT];
};

static struct {
    struct caller callers[CALLERS];
    atomic_uint count;
    struct runtime others[RUNTIMES];
} linked;

static void learn_runtime(struct runtime *runtime, const char *path) {
    for (int id = 0; id < REAL_COUNT; id++)
        if (real_table[id].library == CUDART)
            atomic_store_explicit(&runtime->pointers[id],
                                  real_in_object(path, real_table[id].symbol),
                                  memory_order_release);
}

static unsigned number_of_runtime(const struct object_link *link) {
    for (unsigned i = 0; i < RUNTIMES; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&linked.others[i].start, &none, link->needed.start)) {
            learn_runtime(&linked.others[i], link->needed_path);
            return i + 1;
        }
        if (none == link->needed.start)
            return i + 1;
    }
    return 0;
}

/* The usual one is that of the usual functions. */
static unsigned runtime_of(const struct object_link *link) {
    uintptr_t usual = real_get(ID_cudaMalloc) ? (uintptr_t)real_beneath(ID_cudaMalloc) : 0;
    bool is_usual = usual >= link->needed.start && usual < link->needed.end;
    return !usual || !link->needed.end || is_usual ? 0 : number_of_runtime(link);
}

static unsigned learn_caller(uintptr_t p) {
    struct object_link link = {{p & ~(uintptr_t)(PAGE - 1), (p | (PAGE - 1)) + 1}, {0, 0}, {0}};
    /* Where no object is found the code was made at run time, and linked with none. */
    bool is_object = objects_link((const void *)p, "libcudart", &link);
    unsigned runtime = runtime_of(&link);
    unsigned i = atomic_fetch_add(&linked.count, 1);
    if (i < CALLERS) {
        linked.callers[i].start = link.object.start;
        linked.callers[i].runtime = runtime;
        linked.callers[i].is_object = is_object;
        atomic_store_explicit(&linked.callers[i].end, link.object.end, memory_order_release);
    }
    return runtime;
}

static unsigned runtime_of_caller(uintptr_t p) {
    unsigned count = atomic_load_explicit(&linked.count, memory_order_acquire);
    for (unsigned i = 0; i < count && i < CALLERS; i++) {
        const struct caller *caller = &linked.callers[i];
        if (p < atomic_load_explicit(&caller->end, memory_order_acquire) && p >= caller->start)
            return caller->runtime;
    }
    return count < CALLERS ? learn_caller(p) : 0;
}

void *runtimes_choose(enum real_id id, const void *caller, void *usual) {
    unsigned runtime = runtime_of_caller((uintptr_t)caller);
    if (LIKELY(runtime == 0) || real_beneath(id) != usual)
        return usual;
    void *p = atomic_load_explicit(&linked.others[runtime - 1].pointers[id], memory_order_acquire);
    return p ? p : usual;
}

/* The callers first: as long as one is loaded, so is the runtime that it was linked with. */
void runtimes_forget_closed(void) {
    unsigned count = atomic_load_explicit(&linked.count, memory_order_acquire);
    for (unsigned i = 0; i < count && i < CALLERS; i++) {
        struct caller *caller = &linked.callers[i];
        if (atomic_load_explicit(&caller->end, memory_order_acquire) && caller->is_object &&
            !objects_loaded(caller->start))
            atomic_store_explicit(&caller->end, 0, memory_order_release);
    }
    for (unsigned i = 0; i < RUNTIMES; i++) {
        uintptr_t start = atomic_load_explicit(&linked.others[i].start, memory_order_acquire);
        objects_drop_unloaded(linked.others[i].pointers, REAL_COUNT);
        if (start && !objects_loaded(start))
            atomic_store_explicit(&linked.others[i].start, 0, memory_order_release);
    }
}

/* --- who else has functions that map memory: a driver newer than we know may have further forms of
 * one, and another interposer its own: programs that ask by name get those --- */

static const char *const mapping_functions[] = {
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemRetainAllocationHandle",
    "cuMemExportToShareableHandle",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMulticastBindMem",
    "cuMulticastBindAddr",
};

/* The driver's answer to a program that knows its newest forms. NULL: there is none. */
static void *newest_form(const char *name, int version) {
    real_cuGetProcAddress_v2_t ask = REAL(cuGetProcAddress_v2);
    real_cuGetProcAddress_t ask_as_before = REAL(cuGetProcAddress);
    CUdriverProcAddressQueryResult status;
    void *found = NULL;
    CUresult result = ask             ? ask(name, &found, version, 0, &status)
                      : ask_as_before ? ask_as_before(name, &found, version, 0)
                                      : CUDA_ERROR_NOT_FOUND;
    return result == CUDA_SUCCESS ? found : NULL;
}

/* 0: not known. */
static int version_of_driver(void) {
    real_cuDriverGetVersion_t get_version = REAL(cuDriverGetVersion);
    int version = 0;
    return get_version && get_version(&version) == CUDA_SUCCESS ? version : 0;
}

static bool ask_for_all(void) {
    int version = version_of_driver();
    bool ours = version != 0;
    real_find_driver();
    for (size_t i = 0; ours && i < ARRAY_LENGTH(mapping_functions); i++) {
        void *found = newest_form(mapping_functions[i], version);
        ours = !found || real_of_pointer(found) < REAL_COUNT;
    }
    return ours;
}

bool vmm_entries_are_ours(void) {
    enum { UNKNOWN, OURS, NOT_OURS };
    static _Atomic int known;
    int answer = atomic_load(&known);
    if (answer == UNKNOWN) {
        answer = ask_for_all() ? OURS : NOT_OURS;
        atomic_store(&known, answer);
    }
    return answer == OURS;
}

/* The object that has the function, should it be another than the driver. */
static bool is_beside_driver(const void *function, struct object_range *object, char *path,
                             size_t capacity) {
    return function && !objects_inside(function, "libcuda.so") && !objects_own(function) &&
           objects_at(function, object, path, capacity);
}

/* The runtime gets cuMemAlloc from cuGetProcAddress, which may be all that is hooked. Elsewhere
 * libraries that have a runtime of their own may export its functions, and replace none. */
static bool find_interposer(struct object_range *object, char *path, size_t capacity) {
    void *of_runtime = real_get(ID_cudaMalloc);
    if (of_runtime != real_beneath(ID_cudaMalloc) && objects_at(of_runtime, object, path, capacity))
        return true;
    return is_beside_driver(real_get(ID_cuMemAlloc_v2), object, path, capacity) ||
           is_beside_driver(newest_form("cuMemAlloc", version_of_driver()), object, path, capacity);
}

bool vmm_entries_pass_by(char *out, size_t capacity) {
    char path[512];
    struct object_range object;
    bool found = find_interposer(&object, path, sizeof path);
    uintptr_t create = (uintptr_t)real_get(ID_cuMemCreate);
    bool passed = found && (create < object.start || create >= object.end);
    text_copy(out, capacity, passed ? text_after_folder(path) : "");
    return *out; /* the program itself has no name here, and knows what it does */
}
