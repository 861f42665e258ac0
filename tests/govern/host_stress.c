/* host_stress.c: threads that allocate and free at work, each word checked, beside releases one
 * after the other and forks: what host memory's allocator must bear, whichever is preloaded.
 * Arguments: seconds; threads; the allocator's name. It prints how often what was done. */
#include "../seed.h"
#include "base/base.h"
#include "cuda/real.h"
#include "host/allocator.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 64, SHARED = 256, MOST_THREADS = 256, HANGS_SECONDS = 300, CHILD_BLOCKS = 1000 };

struct block {
    uint64_t bytes, pattern;
    uint64_t words[];
};

static struct {
    struct block *_Atomic shared[SHARED]; /* freed by another thread than the one that made them */
    atomic_bool over;
    atomic_ullong blocks, forks;
} self;

void *real_dlsym(void *handle, const char *name) {
    return dlsym(handle, name);
}

static void fail(const char *what) {
    fprintf(stderr, "host_stress: %s\n", what);
    _exit(1);
}

static uint64_t next(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    return *random ^= *random << 17;
}

/* As tensors' and Python's: most are small, a few are mapped. */
static uint64_t size_of(uint64_t number) {
    uint64_t most = number % 256 == 0 ? 512 << 10 : number % 16 == 0 ? 32 << 10 : 1 << 10;
    return sizeof(struct block) + (number >> 8) % most;
}

static uint64_t words_of(const struct block *block) {
    return (block->bytes - sizeof *block) / sizeof *block->words;
}

static void fill(struct block *block, uint64_t bytes, uint64_t pattern) {
    block->bytes = bytes;
    block->pattern = pattern;
    for (uint64_t i = 0; i < words_of(block); i++)
        block->words[i] = pattern + i;
}

static void check(const struct block *block) {
    for (uint64_t i = 0; i < words_of(block); i++)
        if (block->words[i] != block->pattern + i)
            fail("a block has changed");
}

static struct block *make(uint64_t *random) {
    uint64_t bytes = size_of(next(random)), pattern = next(random);
    struct block *block = malloc(bytes);
    if (!block)
        fail("no memory");
    fill(block, bytes, pattern);
    return block;
}

static struct block *grow(struct block *block, uint64_t *random) {
    check(block);
    uint64_t bytes = block->bytes + size_of(next(random)), pattern = block->pattern;
    block = realloc(block, bytes);
    if (!block || block->pattern != pattern)
        fail("a block has changed as it grew");
    check(block);
    fill(block, bytes, pattern + 1);
    return block;
}

static void drop(struct block *block) {
    if (block)
        check(block);
    free(block);
}

static void *work(void *argument) {
    uint64_t random = seed_from((uintptr_t)argument) * 0x9e3779b97f4a7c15u | 1, done = 0;
    struct block *mine[SLOTS] = {NULL};
    for (; !self.over; done++) {
        struct block **slot = &mine[next(&random) % SLOTS];
        uint64_t what = next(&random) % 8;
        if (*slot && what == 0 && (*slot)->bytes < 1 << 20) {
            *slot = grow(*slot, &random);
        } else if (what == 1) {
            *slot = atomic_exchange(&self.shared[next(&random) % SHARED], *slot);
        } else {
            drop(*slot);
            *slot = make(&random);
        }
    }
    for (size_t i = 0; i < SLOTS; i++)
        drop(mine[i]);
    self.blocks += done;
    return NULL;
}

/* As a web UI starts a program: what the child takes then must not wait for a lock that nobody has.
 */
static void *fork_again(void *argument) {
    while (!self.over) {
        int status = 0;
        pid_t child = fork();
        for (size_t i = 0; child == 0 && i < CHILD_BLOCKS; i++)
            free(malloc(i * 64));
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            fail("a forked child failed");
        self.forks++;
    }
    return argument;
}

int main(int argc, char **argv) {
    pthread_t threads[MOST_THREADS + 1];
    unsigned count = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
    uint64_t releases = 0,
             until_ns = clock_ns() + (count ? (uint64_t)atoi(argv[1]) : 0) * SECOND_NS;
    if (!count || count > MOST_THREADS || !host_allocator_name() ||
        strcmp(host_allocator_name(), argv[3]) != 0)
        fail("usage: SECONDS THREADS ALLOCATOR, which must be the one that is there");
    alarm((unsigned)atoi(argv[1]) + HANGS_SECONDS);
    for (unsigned i = 0; i <= count; i++)
        if (pthread_create(&threads[i], NULL, i < count ? work : fork_again,
                           (void *)(uintptr_t)(i + 1)))
            fail("no thread");
    for (; clock_ns() < until_ns || !self.forks; releases++) {
        host_allocator_has();
        host_allocator_release(50 * MILLISECOND_NS);
    }
    self.over = true;
    for (unsigned i = 0; i <= count; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SHARED; i++)
        drop(self.shared[i]);
    printf("%s: %llu blocks, %llu releases by %s, %llu forks\n", host_allocator_name(),
           (unsigned long long)self.blocks, (unsigned long long)releases, host_allocator_call(),
           (unsigned long long)self.forks);
    return 0;
}
