/* policy.c: see policy.h for the rules. Must not call anything. */
#include "policy/policy.h"

#include "base/base.h"
#include "card/threshold.h"

static bool is_above(double percent, const struct policy_reading *reading, uint64_t more_bytes) {
    uint64_t used_bytes = minus_u64(reading->total_bytes, reading->free_bytes) + more_bytes;
    return card_is_above(percent, reading->total_bytes, used_bytes);
}

static bool has_passed(uint64_t since_ns, uint64_t now_ns, uint64_t duration_ns) {
    return now_ns >= since_ns && now_ns - since_ns >= duration_ns;
}

static uint64_t gain_bytes(const struct policy_reading *reading) {
    return reading->releasable_bytes + reading->pool_idle_bytes;
}

static void update_arming(const struct policy_settings *settings, struct policy_state *state,
                          const struct policy_reading *reading) {
    uint64_t total = reading->total_bytes, idle = gain_bytes(reading);
    state->least_idle_bytes = min_u64(state->least_idle_bytes, idle);
    double grown = 100 * (double)(idle - state->least_idle_bytes) / (double)total;
    if (!is_above(settings->threshold_percent - settings->hysteresis_percent, reading, 0))
        state->disarmed = false;
    if (grown >= settings->hysteresis_percent)
        state->disarmed = false;
}

static uint64_t cooldown(const struct policy_settings *settings, const struct policy_state *state) {
    return settings->cooldown_ns << state->doublings;
}

/* How long it is to the next reclaim. Lowvram waits for rests anyhow. */
static uint64_t pause_ns(const struct policy_settings *settings, const struct policy_state *state,
                         const struct policy_reading *reading) {
    bool rests = has_passed(reading->latest_event_ns, reading->now_ns, settings->cooldown_ns);
    return settings->lowvram || rests ? settings->cooldown_ns : cooldown(settings, state);
}

static bool is_worth_it(const struct policy_settings *settings, const struct policy_state *state,
                        const struct policy_reading *reading) {
    if (state->acted &&
        !has_passed(state->latest_action_ns, reading->now_ns, pause_ns(settings, state, reading)))
        return false;
    return gain_bytes(reading) >= settings->min_gain_bytes;
}

/* The first tick of a rest that is long enough. */
static bool is_rest(const struct policy_settings *settings, const struct policy_state *state,
                    const struct policy_reading *reading) {
    bool is_tick = reading->request_bytes == 0;
    bool is_new = !state->acted || reading->latest_event_ns > state->latest_action_ns;
    return is_tick && is_new &&
           has_passed(reading->latest_event_ns, reading->now_ns, settings->quiet_ns);
}

/* Why memory should be given back, if there is any. */
static enum policy_reason reason_for(const struct policy_settings *settings,
                                     struct policy_state *state,
                                     const struct policy_reading *reading) {
    if (reading->asked)
        return POLICY_ASKED;
    if (reading->total_bytes == 0 || reading->request_bytes > reading->free_bytes)
        return POLICY_NO_REASON;
    update_arming(settings, state, reading);
    if (!is_worth_it(settings, state, reading))
        return POLICY_NO_REASON;
    if (settings->lowvram)
        return is_rest(settings, state, reading) ? POLICY_LOWVRAM : POLICY_NO_REASON;
    bool above = is_above(settings->threshold_percent, reading, reading->request_bytes);
    return above && !state->disarmed ? POLICY_THRESHOLD : POLICY_NO_REASON;
}

struct policy_decision policy_decide(const struct policy_settings *settings,
                                     struct policy_state *state,
                                     const struct policy_reading *reading) {
    struct policy_decision decision = {0};
    if (settings->mode == POLICY_OFF)
        return decision;
    enum policy_reason reason = reason_for(settings, state, reading);
    if (reason == POLICY_NO_REASON)
        return decision;
    decision.flush = reading->releasable_bytes > 0;
    decision.trim = reading->pool_idle_bytes > 0;
    if (!decision.flush && !decision.trim)
        return decision;
    decision.reason = reason;
    decision.observed = settings->mode == POLICY_OBSERVE;
    return decision;
}

/* How much must go until the card is at the threshold. */
static uint64_t above_threshold_bytes(const struct policy_settings *settings,
                                      const struct policy_idle *idle) {
    uint64_t at_bytes = card_at_threshold(settings->threshold_percent, idle->total_bytes);
    return idle->total_bytes ? minus_u64(idle->used_bytes, at_bytes) : 0;
}

struct policy_decay policy_decay(const struct policy_settings *settings,
                                 const struct policy_idle *idle) {
    uint64_t above_bytes = above_threshold_bytes(settings, idle);
    if (settings->lowvram)
        return (struct policy_decay){LOWVRAM_KEPT_NS, idle->kept_bytes, LOWVRAM_KEPT_NS};
    return (struct policy_decay){
        .kept_ns = settings->idle_most_ns,
        .kept_bytes = minus_u64(above_bytes, idle->returned_bytes),
        .returned_ns = above_bytes ? settings->quiet_ns : settings->idle_most_ns,
    };
}

static unsigned doublings(const struct policy_settings *settings, const struct policy_state *state,
                          uint64_t now_ns) {
    if (!state->acted || has_passed(state->latest_action_ns, now_ns, 2 * cooldown(settings, state)))
        return 0;
    bool same = !has_passed(state->latest_action_ns, now_ns, settings->cooldown_ns);
    return same || state->doublings == POLICY_MOST_DOUBLINGS ? state->doublings
                                                             : state->doublings + 1;
}

void policy_acted(const struct policy_settings *settings, struct policy_state *state,
                  uint64_t now_ns) {
    state->doublings = doublings(settings, state, now_ns);
    state->disarmed = true;
    state->acted = true;
    state->latest_action_ns = now_ns;
    state->least_idle_bytes = UINT64_MAX;
}

/* It must say no whenever it does not know. */
enum soft_oom soft_oom_check(const struct soft_oom_facts *facts) {
    if (!facts->from_allocator)
        return SOFT_OOM_NOT_ALLOCATOR;
    if (!facts->stream_asked)
        return SOFT_OOM_UNCACHED;
    if (facts->stream_capturing || facts->capturing)
        return SOFT_OOM_CAPTURING;
    if (facts->under_way_bytes)
        return SOFT_OOM_INDUCED;
    if (facts->frees_since_block || facts->asked_again)
        return SOFT_OOM_RETRY;
    if (facts->expandable)
        return SOFT_OOM_EXPANDABLE;
    if (facts->broken)
        return SOFT_OOM_BROKEN;
    if (!facts->releasable_bytes || facts->releasable_bytes < facts->min_gain_bytes)
        return SOFT_OOM_NO_GAIN;
    return SOFT_OOM_SAFE;
}

const char *soft_oom_name(enum soft_oom verdict) {
    static const char *const names[SOFT_OOM_VERDICTS] = {
        [SOFT_OOM_SAFE] = "safe",
        [SOFT_OOM_NOT_ALLOCATOR] = "the caller is not PyTorch's allocator",
        [SOFT_OOM_UNCACHED] = "PyTorch's allocator runs without its cache",
        [SOFT_OOM_CAPTURING] = "a graph is being captured",
        [SOFT_OOM_RETRY] = "the allocator has just emptied its cache",
        [SOFT_OOM_INDUCED] = "this request was answered so already",
        [SOFT_OOM_EXPANDABLE] = "segments are expandable",
        [SOFT_OOM_BROKEN] = "an earlier one became a real error",
        [SOFT_OOM_NO_GAIN] = "nothing would come back",
        [SOFT_OOM_AT_WORK] = "the GPU is at work",
    };
    return verdict < SOFT_OOM_VERDICTS ? names[verdict] : "?";
}

/* ---- memory of the host: what the program takes again at once must not be released again and
 * again ---- */

/* Half of the second within which a user may expect it. */
#define HOST_REST_NS (500 * MILLISECOND_NS)

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
    return !busy && now_ns - pace->rests_since_ns >= HOST_REST_NS;
}

static uint64_t host_spare_bytes(struct host_has has) {
    return minus_u64(has.bytes, has.in_use_bytes);
}

/* Neither alone is to be had: who maps memory has more that nobody keeps; of what is kept, the
 * system may have some already. */
static uint64_t grown_bytes(const struct host_rule *rule, struct host_has has) {
    return min_u64(minus_u64(host_spare_bytes(has), rule->spare_bytes),
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
        *rule = (struct host_rule){.spare_bytes = minus_u64(host_spare_bytes(has), has.kept_bytes),
                                   .step_bytes = STEP_BYTES,
                                   .paid_until_ns = now_ns};
    rule->spare_bytes = min_u64(rule->spare_bytes, host_spare_bytes(has));
    rule->kept_bytes = min_u64(rule->kept_bytes, has.kept_bytes);
    rule->again_bytes = min_u64(rule->gained_bytes, max_u64(rule->again_bytes, again));
    return grown_bytes(rule, has) >= rule->step_bytes && now_ns >= paid_until_ns(rule) &&
           now_ns - rule->released_ns >= TOOK_PART * rule->took_ns;
}

/* Where little came of it most of what the process has is in use. */
void host_released(struct host_rule *rule, uint64_t now_ns, uint64_t took_ns,
                   struct host_has before, struct host_has after) {
    uint64_t gained = minus_u64(host_spare_bytes(before), host_spare_bytes(after));
    bool little = gained < grown_bytes(rule, before) / LITTLE_PART;
    *rule = (struct host_rule){
        .spare_bytes = host_spare_bytes(after),
        .kept_bytes = after.kept_bytes,
        .step_bytes = little ? min_u64(2 * rule->step_bytes, MOST_STEPS * STEP_BYTES) : STEP_BYTES,
        .released_ns = now_ns,
        .took_ns = took_ns,
        .left_bytes = after.bytes,
        .gained_bytes = gained,
        .paid_until_ns = paid_until_ns(rule),
    };
}

/* Memory that its allocator keeps no longer has come back. */
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
