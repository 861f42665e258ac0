/* reading.c: see reading.h. cuMemGetInfo takes 5 to 12 us on most cards, and 8 ms were seen (sglang
 * #25225: driver 580 in a container): so how long a reading will do goes by what it costs. It must
 * hold no lock while the driver is asked. */
#include "card/reading.h"

#include "base/lock.h"
#include "base/parse.h"
#include "base/peer_file.h"
#include "base/process_stat.h"
#include "card/generation.h"
#include "cuda/capture_mode.h"

/* Readings take at most 1/200 of the time, and 1/40 of it where requests are refused all the time;
 * up to 50 us each one is made every 10 ms. As many cards as a statistics file has
 * (VRAMGC_MAX_DEVICES). */
enum {
    KNOWN_COSTS = 200,
    ANSWER_COSTS = 40,
    YOUNG_NS = 10 * MILLISECOND_NS,
    MAX_CARDS = 16,
};

/* Only others change the sum of what this process holds and what it may still take: so one reading
 * serves many requests. */
struct known {
    int64_t sum_bytes; /* spare, and what this process held then */
    struct meminfo_age age;
};

static struct {
    _Atomic(const struct vramgc_limits *) in_force; /* NULL: CUDA is not used yet */
    bool (*_Atomic own)(struct card_own *);
    _Atomic uint64_t took_ns; /* the latest reading */
    struct generation moves;  /* generation.h */
    struct lock lock;         /* for the gate: */
    struct known cards[MAX_CARDS];
    _Atomic(_Atomic uint64_t *) waking;
} self;
CHILD_OPENS(self.lock);

/* --- the limits; the words may be anything: whoever writes them is the same user --- */

static struct vramgc_limits limits(void) {
    const struct vramgc_limits *in_force =
        atomic_load_explicit(&self.in_force, memory_order_acquire);
    if (!in_force)
        return (struct vramgc_limits){0};
    return (struct vramgc_limits){__atomic_load_n(&in_force->headroom, __ATOMIC_RELAXED),
                                  __atomic_load_n(&in_force->cap, __ATOMIC_RELAXED)};
}

void limit_begin(const struct vramgc_limits *in_force, bool (*own)(struct card_own *)) {
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

static bool own_by_books(void *of, struct card_own *own) {
    (void)of;
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

/* --- readings --- */

/* The lesser of the last two: one may have waited for a processor. */
static uint64_t cost_ns(uint64_t took_ns) {
    uint64_t before_ns = atomic_exchange_explicit(&self.took_ns, took_ns, memory_order_relaxed);
    return before_ns ? min_u64(before_ns, took_ns) : took_ns;
}

struct meminfo_age meminfo_age(uint64_t start_ns) {
    uint64_t end_ns = clock_ns();
    return (struct meminfo_age){end_ns, cost_ns(end_ns - start_ns), false};
}

CUresult meminfo_read(struct meminfo *reading) {
    uint64_t start_ns = clock_ns();
    RELAXED_CAPTURES;
    real_cuMemGetInfo_v2_t get_info = REAL(cuMemGetInfo_v2);
    CUresult result = get_info ? get_info(&reading->free_bytes, &reading->total_bytes)
                               : CUDA_ERROR_NOT_INITIALIZED;
    reading->age = meminfo_age(start_ns);
    if (result == CUDA_SUCCESS)
        meminfo_limit(reading);
    return result;
}

CUresult meminfo_read_beside(struct meminfo *reading, unsigned readings, card_count_t *count,
                             void *of, uint64_t *held_bytes) {
    bool fits = false;
    for (unsigned i = 0; i < readings && !fits; i++) {
        struct card_own before, after;
        if (!count(of, &before))
            return CUDA_ERROR_NOT_INITIALIZED;
        CUresult result = meminfo_read(reading);
        if (result != CUDA_SUCCESS)
            return result;
        if (!count(of, &after))
            return CUDA_ERROR_NOT_INITIALIZED;
        *held_bytes = min_u64(before.bytes, after.bytes);
        fits = generation_same(before.moves, after.moves);
    }
    reading->age.beside = !fits;
    return CUDA_SUCCESS;
}

void meminfo_limit(struct meminfo *reading) {
    struct card_own own = {0};
    own_by_books(NULL, &own); /* else the program has nothing yet */
    struct limit_spare spare = limit_spare(reading->free_bytes, reading->total_bytes, own.bytes);
    uint64_t free_bytes = at_least_0(spare.bytes);
    reading->spare_bytes = spare.bytes;
    reading->limited_bytes = reading->free_bytes - free_bytes;
    reading->free_bytes = free_bytes;
    reading->headroom_bytes = at_least_0(spare.before_headroom_bytes) - free_bytes;
    reading->total_bytes = limit_total(reading->total_bytes);
}

bool meminfo_will_do(struct meminfo_age age, enum meminfo_need need) {
    if (need == MEMINFO_ANEW || !age.end_ns)
        return false;
    if (need == MEMINFO_ANSWER && age.beside)
        return false;
    uint64_t now_ns = clock_ns(), cost_ns = age.cost_ns;
    uint64_t known_ns = max_u64(YOUNG_NS, KNOWN_COSTS * cost_ns);
    uint64_t oldest_ns = need == MEMINFO_KNOWN ? known_ns : ANSWER_COSTS * cost_ns;
    return minus_u64(now_ns, age.end_ns) <= oldest_ns;
}

/* --- the gate --- */

_Atomic(atomic_uint *) gate_taking;

void gate_share(struct gate seen) {
    atomic_store(&self.waking, seen.waking);
    atomic_store(&gate_taking, seen.taking);
}

static void wait_for(_Atomic uint64_t *waking, uint64_t who) {
    uint64_t end_ns = clock_ns() + PEER_WAKING_NS;
    while (who && clock_ns() < end_ns && process_key_lives(who)) {
        sleep_ns(MILLISECOND_NS);
        who = atomic_load(waking);
    }
    if (who) /* killed in the middle, or it hangs: nobody waits for it once more */
        atomic_compare_exchange_strong(waking, &who, 0);
}

/* Each side says first what it does, and looks at the other then: whoever brings one back sees this
 * call, or this call sees that. */
void gate_wait(atomic_uint *taking) {
    _Atomic uint64_t *waking = atomic_load(&self.waking);
    uint64_t who;
    while (atomic_fetch_add(taking, 1), UNLIKELY(who = atomic_load(waking))) {
        atomic_fetch_sub(taking, 1);
        wait_for(waking, who);
    }
}

/* Both of this moment; false: there is no card of which anything is known. */
static bool look_up_card(struct card_own *own, struct known *known) {
    if (!own_by_books(NULL, own) || own->device >= MAX_CARDS)
        return false;
    LOCKED(&self.lock);
    *known = self.cards[own->device];
    return true;
}

static bool known_has_room(const struct card_own *own, const struct known *known, uint64_t bytes) {
    return known->sum_bytes >= 0 && own->bytes + bytes <= (uint64_t)known->sum_bytes;
}

static bool read_card(unsigned card) {
    struct meminfo reading;
    uint64_t held_bytes;
    if (meminfo_read_beside(&reading, 1, own_by_books, NULL, &held_bytes) != CUDA_SUCCESS)
        return false;
    LOCKED(&self.lock);
    self.cards[card] = (struct known){reading.spare_bytes + (int64_t)held_bytes, reading.age};
    return true;
}

bool gate_has_room(uint64_t bytes) {
    struct card_own own;
    struct known known;
    if (!look_up_card(&own, &known))
        return true;
    enum meminfo_need need = known_has_room(&own, &known, bytes) ? MEMINFO_KNOWN : MEMINFO_ANSWER;
    if (!meminfo_will_do(known.age, need) &&
        (!read_card(own.device) || !look_up_card(&own, &known)))
        return true;
    return known_has_room(&own, &known, bytes);
}

CUresult gate_create(CUmemGenericAllocationHandle *handle, uint64_t bytes,
                     const CUmemAllocationProp *properties, uint64_t uncounted_bytes) {
    atomic_uint *taking = gate_enter();
    CUresult result = gate_allows(uncounted_bytes) ? REAL(cuMemCreate)(handle, bytes, properties, 0)
                                                   : CUDA_ERROR_OUT_OF_MEMORY;
    gate_leave(taking);
    return result;
}

/* --- calls for memory that are under way; on the way of every cudaMalloc: nothing waits --- */

/* Of the moves under way, this thread's. */
static THREAD_LOCAL uint64_t own_moves;

void moves_begin(void) {
    own_moves++;
    generation_begin(&self.moves);
}

void moves_end(void) {
    own_moves--;
    generation_end(&self.moves);
}

uint64_t moves_now(void) {
    return generation_now(&self.moves, own_moves);
}

void moves_forget(void) {
    generation_settle(&self.moves, own_moves);
}
