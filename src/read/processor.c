/* processor.c: see processor.h. Linux counts time in hundredths of a second: two looks that follow
 * each other at once say nothing. */
#include "read/processor.h"
#include "base/base.h"
#include "base/process_stat.h"

#include <stdlib.h>
#include <unistd.h>

#define LEAST_NS (SECOND_NS / 2)

struct seen {
    uint64_t pid, start_ticks, worked_ticks, time_ns;
    int percent;
};

static struct {
    struct seen *list;
    size_t count;
} self;

static const struct seen *seen_before(const struct seen *now) {
    for (size_t i = 0; i < self.count; i++)
        if (self.list[i].pid == now->pid && self.list[i].start_ticks == now->start_ticks)
            return &self.list[i];
    return NULL;
}

static struct seen look_at_load(uint64_t pid) {
    struct process_stat stat = process_stat(pid);
    struct seen now = {pid, stat.start_ticks, stat.worked_ticks, clock_ns(), -1};
    const struct seen *then = seen_before(&now);
    if (!then)
        return now;
    if (now.time_ns - then->time_ns < LEAST_NS)
        return *then;
    double seconds = (double)(now.time_ns - then->time_ns) / (double)SECOND_NS;
    double worked = (double)minus_u64(now.worked_ticks, then->worked_ticks);
    now.percent = (int)(100 * worked / (double)sysconf(_SC_CLK_TCK) / seconds + 0.5);
    return now;
}

void processor_note(struct running *running) {
    struct seen *list = calloc(running->count + 1, sizeof *list);
    for (size_t i = 0; list && i < running->count; i++) {
        list[i] = look_at_load(running->list[i].pid);
        running->list[i].cpu_percent = list[i].percent;
    }
    free(self.list);
    self.list = list;
    self.count = list ? running->count : 0;
}
