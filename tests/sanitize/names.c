/* names.c: threads ask where they are all the time, of src/python/names.c as it is, while they run
 * ever other functions, more of them than there are places for; frames and the statistics file are
 * this file's. Every answer must be the function that runs. Run under the sanitizers. */
#include "python/names.h"

#include "../seed.h"

#include "cuda/objects.h"
#include "cuda/real.h"
#include "python/frames.h"
#include "python/phases.h"
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LIKE: so many functions have the same address, one after the other. */
enum { THREADS = 6, LOOKS = 20000, FUNCTIONS = 400, LIKE = 4, DEPTH = 6 };

static struct vramgc_file file;
static atomic_uint wrong, named, called;
static THREAD_LOCAL unsigned stack[DEPTH]; /* the functions, innermost first */

/* ---- what names.c needs ---- */

_Atomic(struct vramgc_file *) store_current = &file;

/* There is no PyTorch that could record. */
bool objects_path(const char *stem, unsigned nth, char *path, size_t capacity) {
    (void)stem, (void)nth, (void)path, (void)capacity;
    return false;
}

void *real_in_object(const char *path, const char *symbol) {
    (void)path, (void)symbol;
    return NULL;
}

uint64_t frames_innermost(void) {
    return 1;
}

bool frames_thread(void) {
    return true;
}

uint64_t frames_outer(uint64_t frame) {
    return frame < DEPTH ? frame + 1 : 0;
}

/* A code object's address and its name's: both of this frame. */
static unsigned function_at(uint64_t code) {
    return stack[code % 16 - 1];
}

uint64_t frames_code(uint64_t frame) {
    return stack[frame - 1] / LIKE << 4 | frame;
}

struct frames_trail frames_trail(uint64_t frame, int most) {
    struct frames_trail trail = {1, 1};
    for (int i = 0; frame && i < most; i++, frame = frames_outer(frame)) {
        trail.codes = trail.codes * 0x9e3779b97f4a7c15 + frames_code(frame);
        trail.names = trail.names * 0x9e3779b97f4a7c15 + stack[frame - 1];
    }
    return trail;
}

void frames_name(uint64_t code, char *out, size_t capacity) {
    snprintf(out, capacity, "f%u", function_at(code));
}

void frames_long_name(uint64_t code, char *out, size_t capacity) {
    frames_name(code, out, capacity);
}

void frames_file(uint64_t code, char *out, size_t capacity) {
    (void)code;
    snprintf(out, capacity, "/ui/x.py");
}

uint32_t frames_line(uint64_t code) {
    return function_at(code);
}

uint64_t frames_place(void) {
    return 0;
}

uint64_t frames_error(void) {
    return 0;
}

void phases_module(const char *path, const char *root, char *out, size_t capacity) {
    (void)root;
    snprintf(out, capacity, "%s", path);
}

/* One in ten. */
bool phases_is_machinery(const char *module, const char *function) {
    (void)module;
    return atoi(function + 1) % 10 == 0;
}

const char *phases_find(const char *module, const char *function) {
    (void)module;
    return atoi(function + 1) % 3 ? "" : "VAE";
}

/* ---- threads that ask ---- */

static unsigned first_that_counts(void) {
    unsigned i = 0;
    while (i < DEPTH - 1 && stack[i] % 10 == 0)
        i++;
    return stack[i];
}

static bool is_named(uint32_t site, unsigned function) {
    char expected[16];
    snprintf(expected, sizeof expected, "f%u", function);
    return strcmp(file.sites[site].function, expected) == 0;
}

/* From the innermost on each that counts, and then nobody. */
static bool is_called_so(uint32_t call) {
    for (unsigned i = 0; i < DEPTH; i++) {
        if (stack[i] % 10 == 0)
            continue;
        if (!call || !is_named(file.calls[call - 1].site, stack[i]))
            return false;
        call = file.calls[call - 1].caller;
    }
    return !call;
}

static void look(void) {
    uint32_t who = names_caller(), site = names_site(who), call = names_call(who);
    if (!site) /* the table is full */
        return;
    atomic_fetch_add(&named, 1);
    if (call)
        atomic_fetch_add(&called, 1);
    if (!is_named(site - 1, first_that_counts()) || (call && !is_called_so(call)))
        atomic_fetch_add(&wrong, 1);
}

static void *ask(void *seed) {
    unsigned random = (unsigned)seed_from((uintptr_t)seed);
    for (int i = 0; i < LOOKS; i++) {
        random = random * 1103515245 + 12345;
        stack[random >> 8 & 3] = 1 + (random >> 16) % FUNCTIONS;
        stack[DEPTH - 1] = 1;
        look();
        look(); /* now it is known */
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    if (names_here()) /* not begun */
        return 1;
    names_begin();
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, ask, (void *)(i + 1)) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    names_end();
    printf("%u looks named, %u with callers, %u wrong, %llu sites, %llu calls\n",
           atomic_load(&named), atomic_load(&called), atomic_load(&wrong),
           (unsigned long long)file.site_count, (unsigned long long)file.call_count);
    return atomic_load(&wrong) > 0 || atomic_load(&named) < LOOKS || !atomic_load(&called) ||
           atomic_load(&called) == atomic_load(&named) || names_here();
}
