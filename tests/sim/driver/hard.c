/* See hard.h. It must not look at what operations do, nor change the books of pages. */
#include "hard.h"
#include "memory.h"
#include "queue.h"

#include <string.h>

/* An entry of the level above the 2 MiB pages spans so much. */
#define TABLE_SPAN_BYTES ((size_t)512 << 20)

enum { TABLES = 1 << 18, FREED_NOTES = 1024 }; /* 47 bits of addresses */

struct freed {
    uint64_t time_ns;
    size_t bytes;
};

static struct {
    uint8_t tables[MAX_DEVICES][TABLES / 8];
    size_t table_count[MAX_DEVICES];
    struct freed freed[MAX_DEVICES][FREED_NOTES]; /* The latest; older ones are told. */
    unsigned next_freed[MAX_DEVICES];
} hard;

bool other_take(struct device *device, size_t bytes) {
    if (device_free_bytes(device) < bytes)
        return false;
    device->context_bytes += bytes;
    return true;
}

void other_give_back(struct device *device, size_t bytes) {
    device->context_bytes -= bytes;
}

bool tables_take(struct device *device, uintptr_t base, size_t bytes) {
    uint8_t *tables = hard.tables[device->ordinal];
    size_t last = (base + bytes - 1) / TABLE_SPAN_BYTES % TABLES;
    if (sim.config.page_table_bytes == 0)
        return true;
    for (size_t i = base / TABLE_SPAN_BYTES % TABLES; i <= last; i++) {
        if (tables[i / 8] & 1u << i % 8)
            continue;
        if (!other_take(device, sim.config.page_table_bytes))
            return false;
        tables[i / 8] |= (uint8_t)(1u << i % 8);
        hard.table_count[device->ordinal]++;
    }
    return true;
}

void tables_drop(struct device *device) {
    other_give_back(device, hard.table_count[device->ordinal] * sim.config.page_table_bytes);
    hard.table_count[device->ordinal] = 0;
    memset(hard.tables[device->ordinal], 0, sizeof hard.tables[device->ordinal]);
}

void freed_note(const struct device *device, size_t bytes) {
    unsigned *next = &hard.next_freed[device->ordinal];
    if (sim.config.free_lag_ms > 0)
        hard.freed[device->ordinal][(*next)++ % FREED_NOTES] = (struct freed){now_ns(), bytes};
}

size_t freed_untold(const struct device *device) {
    uint64_t lag_ns = (uint64_t)sim.config.free_lag_ms * 1000000, now = now_ns();
    size_t free_bytes = device_free_bytes(device), bytes = 0;
    for (unsigned i = 0; lag_ns > 0 && i < FREED_NOTES; i++)
        if (hard.freed[device->ordinal][i].time_ns + lag_ns > now)
            bytes += hard.freed[device->ordinal][i].bytes;
    return bytes < free_bytes ? bytes : free_bytes;
}

/* From 1 us to the longest, short ones more often; the same for the same ticket. */
static uint64_t any_length_ns(uint64_t ticket) {
    uint64_t most_ns = (uint64_t)sim.config.kernel_us * 1000;
    uint64_t random = (ticket + 1) * 0x9e3779b97f4a7c15u >> 20;
    uint64_t range_ns = most_ns >> random % 10;
    return 1000 + (range_ns > 1000 ? (random >> 4) % (range_ns - 1000) : 0);
}

uint64_t device_ns(const struct op *op, uint64_t mean_ns) {
    bool kernel = op->kind == OP_LAUNCH || op->kind == OP_FILL || op->kind == OP_TOUCH ||
                  op->kind == OP_EXPECT || op->kind == OP_USE;
    if (kernel && sim.config.kernel_us > 0)
        mean_ns = any_length_ns(op->ticket);
    return mean_ns * (uint64_t)sim.config.slow;
}
