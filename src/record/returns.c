/* returns.c: see returns.h. A page that goes back and is wanted again costs more calls of the
 * driver than one that stayed, so there is a trade: policy_linger says for how long it stays. The
 * threads of the program must never wait here. */
#include "record/returns.h"

#include "record/paged.h"
#include "record/record.h"

/* Shortest step of our thread, and how much further apart two steps lie when the program is to wake
 * it before the time. */
#define STEP_NS ((MILLISECOND_NS / 5))
#define NAP_NS  MILLISECOND_NS

/* How late our thread must be for the program's own to do its work, and how much of it at once: on
 * a card some 0.2 ms. */
#define LATE_NS    (MILLISECOND_NS / 2)
#define HELP_BYTES (8 * HEAP_PAGE_BYTES)

/* What goes back in one go is told as one action: until nothing has gone for so long, or it has
 * lasted for so long. */
#define PAUSE_NS   SECOND_NS
#define LONGEST_NS (60 * SECOND_NS)

/* What our thread knows of one device. */
struct returning {
    bool waiting; /* for the pages that were idle at age_ns to stay idle long enough */
    struct pages_age age;
    uint64_t age_ns;
    struct vramgc_action action; /* not told yet; kind 0: none */
    uint64_t begun_ns, latest_ns;
};

static struct {
    atomic_bool asleep;
    _Atomic uint64_t expected_ns; /* when our thread should be at work; 0: it is */
    struct returning devices[VRAMGC_MAX_DEVICES];
} self;

/* What is above the threshold and could go, and how long it should have been idle for that. */
struct due {
    uint64_t bytes, linger_ns;
};

/* What of so much idle memory is above the threshold. Before free has been read once, nothing is
 * known to be. */
static uint64_t excess(const struct device *device, const struct policy_settings *settings,
                       uint64_t idle_bytes) {
    uint64_t total = atomic_load(&device->free_read_ns) ? atomic_load(&device->total_bytes) : 0;
    return policy_excess(settings, total, device_used_bytes(device), idle_bytes);
}

static struct due due_of(const struct device *device, struct pages *pages) {
    struct policy_settings settings = record_policy_settings();
    struct pages_figures figures = pages_figures(pages);
    uint64_t idle = figures.idle_bytes + figures.kept_bytes;
    uint64_t bytes = excess(device, &settings, idle);
    uint64_t live = minus_u64(figures.mapped_bytes, figures.idle_bytes);
    return (struct due){bytes, bytes ? policy_linger(&settings, idle, live) : 0};
}

/* Where there are too few processors for our thread, the program's own gives some pages back. */
static void help(struct device *device, struct pages *pages, uint64_t bytes) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t start = clock_ns();
    uint64_t given =
        pages_give_back_old(pages, min_u64(bytes, HELP_BYTES), pages_age(pages), false);
    paged_account(device);
    figure_add(&stats->reclaimed_bytes, given);
    figure_add(&stats->reclaim_ns, clock_ns() - start);
}

static bool is_late(void) {
    uint64_t expected_ns = atomic_load_explicit(&self.expected_ns, memory_order_relaxed);
    return expected_ns && clock_ns() > expected_ns + LATE_NS;
}

static void wake(void) {
    if (!atomic_exchange(&self.asleep, false))
        return;
    atomic_store(&self.expected_ns, clock_ns());
    ticker_wake();
}

/* Below the threshold the first question is all there is to do; above it our thread is woken for no
 * less than what it would not find in time by itself. */
void returns_note(struct device *device) {
    struct pages *pages = paged_engine(device);
    struct policy_settings settings = record_policy_settings();
    if (!pages || !excess(device, &settings, UINT64_MAX))
        return;
    bool asleep = atomic_load_explicit(&self.asleep, memory_order_relaxed);
    if (!asleep && !is_late())
        return;
    struct due due = due_of(device, pages);
    if (due.bytes && asleep && due.linger_ns < settings.quiet_ns)
        wake();
    else if (due.bytes && !asleep && due.linger_ns <= settings.linger_ns)
        help(device, pages, due.bytes);
}

static struct vramgc_action action_of(struct device *device) {
    return (struct vramgc_action){
        .kind = VRAMGC_ACTION_PAGES,
        .reason = record_options()->lowvram ? VRAMGC_REASON_LOWVRAM : VRAMGC_REASON_THRESHOLD,
        .device = device_index(device),
        .time_ns = store_age_ns(),
        .used_bytes = device_used_bytes(device),
        .before_bytes = figure_get(&device->out->stats.page_bytes.current),
    };
}

/* The figures are true at once; the action is written down when it is over. */
static void count(struct device *device, struct returning *returning, uint64_t given,
                  uint64_t now_ns) {
    struct vramgc_device_stats *stats = &device->out->stats;
    uint64_t took_ns = clock_ns() - now_ns;
    figure_add(&stats->reclaimed_bytes, given);
    figure_add(&stats->reclaim_ns, took_ns);
    returning->latest_ns = now_ns;
    returning->action.took_ns += took_ns;
    returning->action.after_bytes = figure_get(&stats->page_bytes.current);
}

static void conclude(struct returning *returning) {
    if (returning->action.kind)
        store_action(&returning->action);
    returning->action.kind = VRAMGC_ACTION_NONE;
}

static void conclude_in_time(struct returning *returning, uint64_t now_ns) {
    if (now_ns - returning->latest_ns >= PAUSE_NS || now_ns - returning->begun_ns >= LONGEST_NS)
        conclude(returning);
}

static void give_back(struct device *device, struct pages *pages, struct returning *returning,
                      uint64_t bytes, uint64_t now_ns) {
    struct vramgc_action action = action_of(device);
    uint64_t given = pages_give_back_old(pages, bytes, returning->age, true);
    paged_account(device);
    if (!given)
        return; /* the GPU has not finished */
    if (!returning->action.kind) {
        returning->action = action;
        returning->begun_ns = now_ns;
        figure_add(&device->out->stats.reclaims, 1);
    }
    count(device, returning, given, now_ns);
}

static void begin_waiting(struct pages *pages, struct returning *returning, uint64_t now_ns) {
    returning->waiting = true;
    returning->age = pages_age(pages);
    returning->age_ns = now_ns;
}

/* What is idle now is looked at again when it has been idle long enough; the GPU is asked at both
 * times. 0: nothing to do. */
static uint64_t step_one(struct device *device, struct pages *pages, uint64_t now_ns) {
    struct returning *returning = &self.devices[device_index(device)];
    struct due due = due_of(device, pages);
    bool waited = returning->waiting;
    returning->waiting = due.bytes > 0;
    if (!due.bytes)
        return 0;
    uint64_t age_ns = now_ns - returning->age_ns;
    if (waited && age_ns < due.linger_ns)
        return max_u64(due.linger_ns - age_ns, STEP_NS);
    if (!due.linger_ns)
        begin_waiting(pages, returning, now_ns);
    if (waited || !due.linger_ns)
        give_back(device, pages, returning, due.bytes, now_ns);
    begin_waiting(pages, returning, now_ns);
    pages_give_back_old(pages, 0, returning->age, true);
    return max_u64(due.linger_ns, STEP_NS);
}

uint64_t returns_step(uint64_t now_ns) {
    uint64_t next_ns = 0;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++) {
        struct device *device = device_if_ready(i);
        struct pages *pages = device ? paged_engine(device) : NULL;
        if (!pages)
            continue;
        uint64_t step_ns = record_capturing() ? NAP_NS : step_one(device, pages, now_ns);
        conclude_in_time(&self.devices[i], now_ns);
        if (step_ns)
            next_ns = next_ns ? min_u64(next_ns, step_ns) : step_ns;
    }
    return next_ns;
}

void returns_sleep(bool asleep, uint64_t until_ns) {
    atomic_store(&self.expected_ns, asleep ? 0 : until_ns);
    atomic_store(&self.asleep, asleep);
}

void returns_conclude(void) {
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        conclude(&self.devices[i]);
}
