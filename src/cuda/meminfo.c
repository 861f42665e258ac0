/* meminfo.c: see meminfo.h. cuMemGetInfo takes 5 to 12 us on most cards, and 8 ms were seen (sglang
 * #25225: driver 580 in a container): so how long a reading will do goes by what it costs. */
#include "cuda/meminfo.h"

#include "cuda/capture_mode.h"
#include "cuda/limit.h"
#include "cuda/real.h"

/* Readings take at most 1/200 of the time, and 1/40 of it where requests are refused all the time;
 * up to 50 us each one is made every 10 ms. */
enum { KNOWN_COSTS = 200, ANSWER_COSTS = 40, YOUNG_NS = 10 * MILLISECOND_NS };

/* What the latest took. */
static struct { _Atomic uint64_t took_ns; } self;

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
    CUstreamCaptureMode before = capture_mode_relax();
    real_cuMemGetInfo_v2_t get_info = REAL(cuMemGetInfo_v2);
    CUresult result = get_info ? get_info(&reading->free_bytes, &reading->total_bytes)
                               : CUDA_ERROR_NOT_INITIALIZED;
    capture_mode_set(before);
    reading->age = meminfo_age(start_ns);
    if (result == CUDA_SUCCESS)
        meminfo_limit(reading);
    return result;
}

void meminfo_limit(struct meminfo *reading) {
    struct limit_own own = {0};
    limit_own(&own); /* else the program has nothing yet */
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
