/* See latency.h. */
#include "latency.h"
#include "queue.h"
#include "simgpu.h"

#include <time.h>

static struct {
    uint64_t busy_until_ns;
    uint64_t passed_ns;
} latency;

static void sleep_until(uint64_t when_ns) {
    const uint64_t spin_ns = 60000; /* A sleep is late by about this much. */
    uint64_t now = now_ns();
    while (now < when_ns) {
        if (when_ns - now > spin_ns) {
            uint64_t nap = when_ns - now - spin_ns;
            struct timespec time = {(time_t)(nap / 1000000000), (long)(nap % 1000000000)};
            nanosleep(&time, NULL);
        }
        now = now_ns();
    }
}

/* Of cuMemGetInfo 5 us to 8 ms were seen on cards, the latter with driver 580 in a container. */
static uint64_t call_ns(enum cost cost, size_t bytes) {
    if (cost == COST_GET_INFO && sim.config.get_info_us > 0)
        return (uint64_t)sim.config.get_info_us * 1000;
    return sim.config.latency == LATENCY_NONE ? 0 : cost_ns(cost, bytes);
}

static void pass(uint64_t took_ns) {
    if (!took_ns)
        return;
    uint64_t start = now_ns();
    if (latency.busy_until_ns > start)
        start = latency.busy_until_ns;
    uint64_t end = start + took_ns;
    latency.busy_until_ns = end;
    latency.passed_ns += took_ns;
    pthread_mutex_unlock(&sim.lock);
    sleep_until(end);
    pthread_mutex_lock(&sim.lock);
}

void latency_pass(enum cost cost, size_t bytes) {
    pass(call_ns(cost, bytes));
}

void latency_pass_handles(enum cost cost, size_t count) {
    pass(sim.config.latency == LATENCY_NONE ? 0 : cost_of_handles_ns(cost, count));
}

void latency_wait(void) {
    uint64_t until = latency.busy_until_ns;
    if (sim.config.latency == LATENCY_NONE || until <= now_ns())
        return;
    pthread_mutex_unlock(&sim.lock);
    sleep_until(until);
    pthread_mutex_lock(&sim.lock);
}

unsigned long long simgpu_latency_ns(void) {
    pthread_mutex_lock(&sim.lock);
    uint64_t passed_ns = latency.passed_ns;
    pthread_mutex_unlock(&sim.lock);
    return passed_ns;
}
