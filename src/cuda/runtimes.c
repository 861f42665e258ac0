/* runtimes.c: see runtimes.h. It must not take a lock: hooks of many threads come here, and a fork
 * may come at any moment. */
#include "cuda/runtimes.h"
#include "cuda/objects.h"

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
} self;

static void learn_runtime(struct runtime *runtime, const char *path) {
    for (int id = 0; id < REAL_COUNT; id++)
        if (real_table[id].library == CUDART)
            atomic_store_explicit(&runtime->pointers[id],
                                  real_in_object(path, real_table[id].symbol),
                                  memory_order_release);
}

static unsigned number_of(const struct object_link *link) {
    for (unsigned i = 0; i < RUNTIMES; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&self.others[i].start, &none, link->needed.start)) {
            learn_runtime(&self.others[i], link->needed_path);
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
    return !usual || !link->needed.end || is_usual ? 0 : number_of(link);
}

static unsigned learn_caller(uintptr_t p) {
    struct object_link link = {{p & ~(uintptr_t)(PAGE - 1), (p | (PAGE - 1)) + 1}, {0, 0}, {0}};
    /* Where no object is found the code was made at run time, and linked with none. */
    bool is_object = objects_link((const void *)p, "libcudart", &link);
    unsigned runtime = runtime_of(&link);
    unsigned i = atomic_fetch_add(&self.count, 1);
    if (i < CALLERS) {
        self.callers[i].start = link.object.start;
        self.callers[i].runtime = runtime;
        self.callers[i].is_object = is_object;
        atomic_store_explicit(&self.callers[i].end, link.object.end, memory_order_release);
    }
    return runtime;
}

static unsigned runtime_of_caller(uintptr_t p) {
    unsigned count = atomic_load_explicit(&self.count, memory_order_acquire);
    for (unsigned i = 0; i < count && i < CALLERS; i++) {
        const struct caller *caller = &self.callers[i];
        if (p < atomic_load_explicit(&caller->end, memory_order_acquire) && p >= caller->start)
            return caller->runtime;
    }
    return count < CALLERS ? learn_caller(p) : 0;
}

void *runtimes_choose(enum real_id id, const void *caller, void *usual) {
    unsigned runtime = runtime_of_caller((uintptr_t)caller);
    if (LIKELY(runtime == 0) || real_beneath(id) != usual)
        return usual;
    void *p = atomic_load_explicit(&self.others[runtime - 1].pointers[id], memory_order_acquire);
    return p ? p : usual;
}

/* The callers first: as long as one is loaded, so is the runtime that it was linked with. */
void runtimes_forget_closed(void) {
    unsigned count = atomic_load_explicit(&self.count, memory_order_acquire);
    for (unsigned i = 0; i < count && i < CALLERS; i++) {
        struct caller *caller = &self.callers[i];
        if (atomic_load_explicit(&caller->end, memory_order_acquire) && caller->is_object &&
            !objects_loaded(caller->start))
            atomic_store_explicit(&caller->end, 0, memory_order_release);
    }
    for (unsigned i = 0; i < RUNTIMES; i++) {
        uintptr_t start = atomic_load_explicit(&self.others[i].start, memory_order_acquire);
        objects_drop_unloaded(self.others[i].pointers, REAL_COUNT);
        if (start && !objects_loaded(start))
            atomic_store_explicit(&self.others[i].start, 0, memory_order_release);
    }
}
