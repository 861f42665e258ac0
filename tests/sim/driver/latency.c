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

void latency_pass(enum cost cost, size_t bytes) {
    if (sim.config.latency == LATENCY_NONE)
        return;
    uint64_t start = now_ns();
    if (latency.busy_until_ns > start)
        start = latency.busy_until_ns;
    uint64_t end = start + cost_ns(cost, bytes);
    latency.busy_until_ns = end;
    latency.passed_ns += cost_ns(cost, bytes);
    pthread_mutex_unlock(&sim.lock);
    sleep_until(end);
    pthread_mutex_lock(&sim.lock);
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
