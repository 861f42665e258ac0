/* rule.c: see rule.h. It must not release again and again what the program takes again at once. */
#include "host/rule.h"

#include "base/base.h"

/* Half of the second within which a user may expect it. */
#define REST_NS (500 * MILLISECOND_NS)

/* A tenth of the least that a process with PyTorch has (165 to 185 MiB, measured). */
#define STEP_BYTES (16 * MEBIBYTE)

/* To have a GiB mapped anew took 0.2 to 0.4 s, in pages of 4 KiB (measured on two machines). */
#define BYTES_PER_NS 3

/* Then 9 GiB may come back without a wait, somewhat more than SDXL's files: 3 s in all. */
#define SAVED_NS (300 * SECOND_NS)

enum { BUSY_PART = 10, TOOK_PART = 10, TIME_PART = 100, LITTLE_PART = 8, MOST_STEPS = 64 };

bool host_rests(struct host_pace *pace, uint64_t now_ns, uint64_t processor_ns, uint64_t own_ns) {
    uint64_t program_ns = processor_ns - own_ns;
    uint64_t time_ns = now_ns - pace->time_ns;
    uint64_t used_ns = minus_u64(program_ns, pace->program_ns); /* of clocks read one by one */
    bool busy = !pace->time_ns || used_ns > time_ns / BUSY_PART;
    if (busy)
        pace->rests_since_ns = 0;
    else if (!pace->rests_since_ns)
        pace->rests_since_ns = pace->time_ns;
    pace->time_ns = now_ns;
    pace->program_ns = program_ns;
    return !busy && now_ns - pace->rests_since_ns >= REST_NS;
}

static uint64_t spare_bytes(struct host_has has) {
    return minus_u64(has.bytes, has.in_use_bytes);
}

/* Neither alone is to be had: who maps memory has more that nobody keeps; of what is kept, the
 * system may have some already. */
static uint64_t grown_bytes(const struct host_rule *rule, struct host_has has) {
    return min_u64(minus_u64(spare_bytes(has), rule->spare_bytes),
                   minus_u64(has.kept_bytes, rule->kept_bytes));
}

/* When all that releases cost so far is worked off. */
static uint64_t paid_until_ns(const struct host_rule *rule) {
    uint64_t from_ns = max_u64(rule->paid_until_ns, minus_u64(rule->released_ns, SAVED_NS));
    return from_ns + TIME_PART * (rule->again_bytes / BYTES_PER_NS);
}

bool host_release_is_due(struct host_rule *rule, uint64_t now_ns, struct host_has has) {
    uint64_t again = minus_u64(has.bytes, rule->left_bytes);
    if (!rule->step_bytes)
        *rule = (struct host_rule){.spare_bytes = minus_u64(spare_bytes(has), has.kept_bytes),
                                   .step_bytes = STEP_BYTES,
                                   .paid_until_ns = now_ns};
    rule->spare_bytes = min_u64(rule->spare_bytes, spare_bytes(has));
    rule->kept_bytes = min_u64(rule->kept_bytes, has.kept_bytes);
    rule->again_bytes = min_u64(rule->gained_bytes, max_u64(rule->again_bytes, again));
    return grown_bytes(rule, has) >= rule->step_bytes && now_ns >= paid_until_ns(rule) &&
           now_ns - rule->released_ns >= TOOK_PART * rule->took_ns;
}

/* Where little came of it most of what the process has is in use. */
void host_released(struct host_rule *rule, uint64_t now_ns, uint64_t took_ns,
                   struct host_has before, struct host_has after) {
    uint64_t gained = minus_u64(spare_bytes(before), spare_bytes(after));
    bool little = gained < grown_bytes(rule, before) / LITTLE_PART;
    *rule = (struct host_rule){
        .spare_bytes = spare_bytes(after),
        .kept_bytes = after.kept_bytes,
        .step_bytes = little ? min_u64(2 * rule->step_bytes, MOST_STEPS * STEP_BYTES) : STEP_BYTES,
        .released_ns = now_ns,
        .took_ns = took_ns,
        .left_bytes = after.bytes,
        .gained_bytes = gained,
        .paid_until_ns = paid_until_ns(rule),
    };
}

/* What its allocator keeps no longer has come back. */
uint64_t host_release_observed(struct host_rule *rule, uint64_t now_ns, struct host_has has) {
    uint64_t gone_bytes = min_u64(rule->observed_bytes, has.kept_bytes);
    has.bytes = minus_u64(has.bytes, gone_bytes);
    rule->observed_bytes = gone_bytes;
    if (!host_release_is_due(rule, now_ns, has))
        return 0;
    uint64_t gained_bytes = grown_bytes(rule, has);
    struct host_has after = has;
    after.bytes -= gained_bytes;
    host_released(rule, now_ns, 0, has, after);
    rule->observed_bytes = gone_bytes + gained_bytes;
    return gained_bytes;
}
