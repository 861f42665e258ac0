/* third.c: a library of somebody else that uses dlsym in the ways that go wrong when an override
 * gets between dlsym and its caller. Built without and with optimisation, as the second and the
 * third object in line: a wrong RTLD_NEXT finds itself and never ends. -DNAME: its own name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define PASTE2(a, b) a##b
#define PASTE(a, b)  PASTE2(a, b)

/* Both builds define it; the first asks the next. Returns how many were asked. */
int chained(int depth);
int chained(int depth) {
    int (*next)(int);
    *(void **)&next = dlsym(RTLD_NEXT, "chained");
    if (depth > 10)
        return -1; /* it found itself */
    return next ? 1 + next(depth + 1) : 1;
}

/* cudaMalloc in a chain of interposers: seen calls are counted and passed on. */
#ifdef INTERPOSES
static unsigned calls;
unsigned third_calls(void);
unsigned third_calls(void) {
    return calls;
}

int cudaMalloc(void **p, size_t n);
int cudaMalloc(void **p, size_t n) {
    int (*next)(void **, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "cudaMalloc");
    if (++calls > 10 || !next)
        return 999;
    return next(p, n);
}
#endif

/* A symbol of this library or of one it needs, when the library was opened RTLD_LOCAL. */
int PASTE(NAME, _own)(void);
int PASTE(NAME, _own)(void) {
    return 42;
}
void *PASTE(NAME, _default)(const char *symbol);
void *PASTE(NAME, _default)(const char *symbol) {
    void *volatile found = dlsym(RTLD_DEFAULT, symbol); /* not a tail call: who asks matters */
    return found;
}

/* Asked for before any constructor of this program has run but this one. */
static void *early;
__attribute__((constructor)) static void ask_early(void) {
    early = dlsym(RTLD_DEFAULT, "dlsym");
}
void *PASTE(NAME, _early)(void);
void *PASTE(NAME, _early)(void) {
    return early;
}
