/* names.c: threads that take blocks ask for names all the time, and begin and end, while vramgc's
 * thread answers, of src/govern/names.c as it is; Python, the heap and the statistics file are this
 * file's. Whatever is named must be named after the thread that asked: each answer is of it, and
 * every block that gets a name is of the thread that took it. Run under ThreadSanitizer; it must
 * end by what was done, not by time. */
#include "govern/names.h"

#include "govern/own_thread.h"
#include "govern/phases_file.h"
#include "govern/python.h"
#include "govern/wakeup.h"
#include "track/oom.h"
#include "track/process_settings.h"
#include "track/thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 6, NAMED = 1500, NEVER = 1 << 24, BLOCKS = 1 << 20 };

THREAD_LOCAL struct thread_state thread_state;
static struct vramgc_file file;
static struct vramgc_device out;
static struct device device = {.out = &out};
static struct options options = {.functions = "auto"};
static struct block {
    atomic_uint tag;
    _Atomic uint64_t thread;   /* which took it */
    _Atomic uint64_t taken_ns; /* no earlier than it asked; 0: a moment later */
} blocks[BLOCKS];
static atomic_uint next_block;
static atomic_uint named_blocks, wrong, ended;
static _Atomic uint64_t look_ns; /* when the latest look began */
static _Atomic uint64_t error;   /* that every thread handles; 0: none */

/* ---- what names.c needs ---- */

void *real_dlsym(void *handle, const char *name) {
    return dlsym(handle, name);
}

struct vramgc_file *store_file(void) {
    return &file;
}

const struct options *settings_options(void) {
    return &options;
}

struct device *device_if_ready(unsigned index) {
    return index == 0 ? &device : NULL;
}

unsigned device_index(const struct device *d) {
    return (unsigned)(d - &device);
}

/* As block.c: what does not wait for this answer is not named. The address is a place in blocks. A
 * look that began so much later is of something else. */
void block_name(struct device *d, uint64_t address, uint32_t asked, uint32_t site, uint64_t peaks) {
    char expected[32];
    struct block *block = &blocks[address % BLOCKS];
    if (d != &device || peaks || !(asked & TAG_ASKED))
        atomic_fetch_add(&wrong, 1);
    if (atomic_load(&block->tag) != asked)
        return;
    snprintf(expected, sizeof expected, "t%llx", (unsigned long long)atomic_load(&block->thread));
    uint64_t taken_ns = atomic_load(&block->taken_ns);
    if (strcmp(file.sites[site].function, expected) != 0 ||
        (taken_ns && atomic_load(&look_ns) > taken_ns + NAMES_FRESH_NS))
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&named_blocks, 1);
}

/* Now and then it takes a while: the place of the request is another's when the answer comes. */
bool python_look(struct python_look *looks, size_t count) {
    static unsigned looked;
    atomic_store(&look_ns, clock_ns());
    if (looked++ % 4 == 0)
        usleep(250);
    for (size_t i = 0; i < count; i++) {
        looks[i].error = looks[i].asks_error ? atomic_load(&error) : 0;
        snprintf(looks[i].place->function, sizeof looks[i].place->function, "t%llx",
                 (unsigned long long)looks[i].thread);
    }
    return true;
}

uint64_t oom_told_ns(void) {
    return thread_state.oom.told.sequence ? thread_state.oom.told_ns : 0;
}

void oom_is_handled(bool handled) {
    if (handled)
        thread_state.oom.told.sequence = 0;
    else
        thread_state.oom.told_known = true;
}

bool python_can_look(void) {
    return true;
}

bool python_thread_has_gil(void) {
    return false;
}

void phases_file_read(const char *path) {
    (void)path;
}

void python_prepare(void) {}
void python_thread_ended(void) {}

/* ---- threads that take memory ---- */

/* What the thread is known by is itself, but for what is not known. */
static void check_own_name(void) {
    char expected[32];
    uint32_t site = thread_site();
    snprintf(expected, sizeof expected, "t%llx", (unsigned long long)pthread_self());
    if (site && strcmp(file.sites[site - 1].function, expected) != 0)
        atomic_fetch_add(&wrong, 1);
}

static void take_block(struct block_event *event) {
    event->address = atomic_fetch_add(&next_block, 1) % BLOCKS;
    atomic_store(&blocks[event->address].tag, 0);
    atomic_store(&blocks[event->address].thread, (uint64_t)pthread_self());
    atomic_store(&blocks[event->address].taken_ns, 0);
    atomic_store(&blocks[event->address].tag, names_tag(event));
    atomic_store(&blocks[event->address].taken_ns, clock_ns());
    names_block_came();
}

static void *take_blocks(void *unused) {
    struct block_event event = {.device = &device};
    unsigned before = atomic_load(&named_blocks);
    for (unsigned i = 0; i < NEVER && atomic_load(&named_blocks) < before + 2; i++) {
        event.bytes = i % 3 ? 3 * MEBIBYTE : 300 * KIBIBYTE;
        take_block(&event);
        check_own_name();
        if (i % 64 == 0)
            names_at_oom(&device);
        usleep(20);
    }
    atomic_fetch_add(&ended, 1);
    return unused;
}

static void *begin_and_end(void *unused) {
    while (atomic_load(&named_blocks) < NAMED) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, take_blocks, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return unused;
}

/* It would answer before the block's tag is there. */
static bool is_woken_behind_the_block(void) {
    struct block_event event = {.device = &device, .bytes = 3 * MEBIBYTE};
    unsigned before = wakeup_count(WAKEUP_NAMES);
    names_tag(&event);
    bool early = wakeup_count(WAKEUP_NAMES) != before;
    names_block_came();
    return !early && wakeup_count(WAKEUP_NAMES) != before;
}

/* Whether an out-of-memory error is taken for caught by Python, which handled `then` when it was
 * raised and handles `now` at the next request. */
static bool is_caught(uint64_t then, uint64_t now) {
    atomic_store(&error, then);
    names_at_oom(&device);
    thread_state.oom.told.sequence = 1;
    thread_state.oom.told_ns = clock_ns();
    atomic_store(&error, now);
    names_before_request();
    usleep(NAMES_FRESH_NS / 1000); /* the next is due */
    return !thread_state.oom.told.sequence;
}

/* The answer may come too late, and then nothing is known. */
static bool errors_are_told_apart(void) {
    bool caught = false;
    for (int i = 0; i < 2000 && !caught; i++)
        caught = is_caught(0, 7);
    return caught && !is_caught(7, 7) && !is_caught(7, 0) && !is_caught(0, 0);
}

int main(void) {
    pthread_t threads[THREADS];
    names_begin();
    while (!atomic_load(&names_on))
        usleep(100);
    if (!is_woken_behind_the_block() || !errors_are_told_apart())
        return 1;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, begin_and_end, NULL) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    names_end();
    while (own_threads() > 0)
        usleep(100);
    printf("%u blocks named, %u wrong, %u threads, %llu sites\n", atomic_load(&named_blocks),
           atomic_load(&wrong), atomic_load(&ended), (unsigned long long)file.site_count);
    return atomic_load(&wrong) > 0 || file.site_count == 0;
}
