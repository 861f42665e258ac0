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

static uint64_t idle_bytes(const struct policy_reading *reading) {
    return reading->releasable_bytes + reading->pool_idle_bytes;
}

static void update_arming(const struct policy_settings *settings, struct policy_state *state,
                          const struct policy_reading *reading) {
    uint64_t total = reading->total_bytes, idle = idle_bytes(reading);
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
static uint64_t wait_for(const struct policy_settings *settings, const struct policy_state *state,
                         const struct policy_reading *reading) {
    bool rests = has_passed(reading->latest_event_ns, reading->now_ns, settings->cooldown_ns);
    return settings->lowvram || rests ? settings->cooldown_ns : cooldown(settings, state);
}

static bool is_worth_it(const struct policy_settings *settings, const struct policy_state *state,
                        const struct policy_reading *reading) {
    if (state->acted &&
        !has_passed(state->latest_action_ns, reading->now_ns, wait_for(settings, state, reading)))
        return false;
    return idle_bytes(reading) >= settings->min_gain_bytes;
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
static uint64_t excess(const struct policy_settings *settings, const struct policy_idle *idle) {
    uint64_t at_bytes = card_at_threshold(settings->threshold_percent, idle->total_bytes);
    return idle->total_bytes ? minus_u64(idle->used_bytes, at_bytes) : 0;
}

/* Where as much is idle as is live. With it SD 1.5 holds 1.09 of what is live. */
static uint64_t usual_linger_ns(const struct policy_settings *settings) {
    return settings->quiet_ns / POLICY_LINGER_PART;
}

static uint64_t linger(const struct policy_settings *settings, const struct policy_idle *idle) {
    uint64_t idle_bytes = idle->attached_bytes + idle->retained_bytes;
    if (idle->live_bytes <= idle_bytes / 4)
        return 0;
    if (!idle_bytes)
        return settings->quiet_ns;
    double times = (double)idle->live_bytes / (double)idle_bytes;
    uint64_t linger_ns = times > POLICY_LINGER_PART
                             ? settings->quiet_ns
                             : (uint64_t)((double)usual_linger_ns(settings) * times);
    return linger_ns;
}

uint64_t policy_pace(const struct policy_settings *settings, uint64_t pace_ns, uint64_t work_ns,
                     uint64_t time_ns) {
    if (work_ns > time_ns / POLICY_MOST_WORK_PART)
        return min_u64(max_u64(2 * pace_ns, usual_linger_ns(settings)), settings->quiet_ns);
    if (work_ns >= time_ns / POLICY_MOST_WORK_PART / 2)
        return pace_ns;
    return pace_ns > usual_linger_ns(settings) ? pace_ns / 2 : 0;
}

/* 3 of 50 ms. With that the lab's loop and diffusers' sequential offload, which empty PyTorch's
 * cache all the time, hold no more than without us. With 10 ms sequential offload holds 1.12 times
 * as much, with 50 ms 1.3 times; with 2 ms it takes 5 % longer. Were it 0, sdxl_offload and flux
 * would take 5 to 10 % longer: our thread would unmap what the next model takes. */
enum { RETAINED_PART = 16 };

struct policy_decay policy_decay(const struct policy_settings *settings,
                                 const struct policy_idle *idle) {
    uint64_t given_up_ns = settings->quiet_ns / RETAINED_PART, linger_ns = linger(settings, idle);
    if (settings->lowvram)
        return (struct policy_decay){
            .attached_ns = max_u64(linger_ns, idle->pace_ns),
            .attached_bytes = idle->attached_bytes,
            .retained_ns = max_u64(linger_ns, min_u64(idle->pace_ns, given_up_ns)),
        };
    return (struct policy_decay){
        .attached_ns = settings->cooldown_ns,
        .attached_bytes = minus_u64(excess(settings, idle), idle->retained_bytes),
        .retained_ns = given_up_ns,
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
