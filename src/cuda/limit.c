/* limit.c: see limit.h. The words may be anything: whoever writes them is the same user. */
#include "cuda/limit.h"

#include "base/parse.h"

static struct {
    _Atomic(const struct vramgc_limits *) in_force; /* NULL: CUDA is not used yet */
    bool (*_Atomic own)(struct limit_own *);
} self;

static struct vramgc_limits limits(void) {
    const struct vramgc_limits *in_force =
        atomic_load_explicit(&self.in_force, memory_order_acquire);
    if (!in_force)
        return (struct vramgc_limits){0};
    return (struct vramgc_limits){__atomic_load_n(&in_force->headroom, __ATOMIC_RELAXED),
                                  __atomic_load_n(&in_force->cap, __ATOMIC_RELAXED)};
}

void limit_begin(const struct vramgc_limits *in_force, bool (*own)(struct limit_own *)) {
    atomic_store(&self.own, own);
    atomic_store_explicit(&self.in_force, in_force, memory_order_release);
}

bool limit_is_on(void) {
    struct vramgc_limits now = limits();
    return UNLIKELY(now.headroom || now.cap);
}

uint64_t limit_words(void) {
    struct vramgc_limits now = limits();
    return now.headroom * 31 + now.cap;
}

bool limit_own(struct limit_own *own) {
    return limit_is_on() && atomic_load(&self.own)(own);
}

uint64_t limit_total(uint64_t total_bytes) {
    uint64_t cap = limits().cap;
    return LIKELY(!cap) ? total_bytes : min_u64(total_bytes, amount_bytes(cap, total_bytes));
}

/* More than any card has; the sums below stay within 64 bits. */
#define MOST_BYTES ((uint64_t)1 << 60)

static int64_t difference(uint64_t a, uint64_t b) {
    return (int64_t)min_u64(a, MOST_BYTES) - (int64_t)min_u64(b, MOST_BYTES);
}

struct limit_spare limit_spare(uint64_t free_bytes, uint64_t total_bytes, uint64_t own_bytes) {
    struct vramgc_limits now = limits();
    int64_t seen = difference(free_bytes, 0);
    int64_t bytes = difference(free_bytes, amount_bytes(now.headroom, total_bytes));
    if (now.cap) {
        int64_t below_cap = difference(limit_total(total_bytes), own_bytes);
        seen = below_cap < seen ? below_cap : seen;
        bytes = below_cap < bytes ? below_cap : bytes;
    }
    return (struct limit_spare){bytes, seen};
}
