/* event_log.c: see event_log.h. It must not fill the log of a program that tries again and again:
 * of all refusals within a second the latest is told, and the others are counted. */
#include "track/event_log.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"
#include "track/device.h"

#include <stdatomic.h>

/* One line a second can be read. */
#define PAUSE_NS SECOND_NS

/* Of one kind, since the last line. */
struct noted {
    struct vramgc_refusal latest, before;
    uint64_t count;
};

/* Stands for an action whose sequence is not known yet. */
#define BEGINNING UINT64_MAX

static struct {
    struct lock lock; /* what was noted; one thread passes an action over while another ends it */
    struct noted errors, went_on;
    uint64_t noted_ns;
    uint64_t written_ns;
    uint64_t logged; /* actions looked at for the log */
    /* Sequence of the one that goes on; 0: none. */
    _Atomic uint64_t open[VRAMGC_MAX_DEVICES][VRAMGC_REASONS];
} self;
CHILD_OPENS(self.lock);

static void note_refusal(struct noted *noted, const struct vramgc_refusal *refusal) {
    noted->before = noted->latest;
    noted->latest = *refusal;
    noted->count++;
}

void oom_log_note(const struct vramgc_refusal *refusal) {
    LOCKED(&self.lock);
    note_refusal(&self.errors, refusal);
    self.noted_ns = clock_ns();
}

void oom_log_went_on(const struct vramgc_refusal *refusal) {
    LOCKED(&self.lock);
    bool latest = self.errors.latest.time_ns == refusal->time_ns;
    if (self.errors.count > 0 && latest) { /* else it took so long that it was told */
        self.errors.latest = self.errors.before;
        self.errors.count--;
        note_refusal(&self.went_on, refusal);
    }
}

static void say_part(struct text *text, const char *before, uint64_t bytes, const char *after) {
    text_add(text, before);
    text_add_bytes(text, bytes);
    text_add(text, after);
}

/* Where the total is unknown, so are the other figures of the driver's. */
static void say_refusal(struct text *text, const struct vramgc_refusal *r) {
    uint64_t of_pytorch = minus_u64(r->held_bytes, r->other_bytes);
    uint64_t others = minus_u64(r->total_bytes, r->held_bytes + r->free_bytes + r->limited_bytes);
    text_format(text, "gpu%u: %s: ", r->device,
                r->reported == VRAMGC_WENT_ON ? "refused, and the work went on without it"
                                              : "out of memory");
    if (r->request_bytes)
        say_part(text, "", r->request_bytes, " wanted; ");
    else
        text_add(text, "CUDA itself wanted some; ");
    say_part(text, "live ", r->allocated_bytes, ", ");
    say_part(text, "idle ", minus_u64(of_pytorch, r->allocated_bytes), "");
    if (r->other_bytes)
        say_part(text, ", libraries here ", r->other_bytes, "");
    if (r->total_bytes) {
        say_part(text, ", others and driver ", others, "");
        if (r->limited_bytes)
            say_part(text, ", kept by VRAMGC_HEADROOM or VRAMGC_CAP ", r->limited_bytes, "");
        say_part(text, ", free ", r->free_bytes, "");
    }
}

static void say_host_refusal(struct text *text, const struct vramgc_refusal *r) {
    say_part(text, "the host refused page-locked memory: ", r->request_bytes, " wanted; ");
    say_part(text, "", r->held_bytes, " pinned");
    if (r->total_bytes)
        say_part(text, ", ", r->free_bytes, " available");
}

static void write_noted(enum option_log level, const struct noted *noted) {
    TEXT_OVER(text, line, 320);
    if (noted->count == 0)
        return;
    if (noted->latest.cause == VRAMGC_CAUSE_HOST)
        say_host_refusal(&text, &noted->latest);
    else
        say_refusal(&text, &noted->latest);
    if (noted->count > 1)
        text_format(&text, " (and %lu more since the last such line)", noted->count - 1);
    LOG_AT(level, noted->latest.time_ns, "%s", line); /* as the report has it */
    self.written_ns = clock_ns();
}

/* Waits a while before it writes: whether the work went on is not known at once. */
void oom_log_write(bool at_end) {
    if (!at_end && self.written_ns && clock_ns() - self.written_ns < PAUSE_NS)
        return;
    lock_take(&self.lock);
    bool known = at_end || clock_ns() - self.noted_ns >= OOM_AT_ONCE_NS;
    struct noted errors = self.errors, went_on = self.went_on;
    if (known)
        self.errors.count = self.went_on.count = 0;
    lock_give(&self.lock);
    if (!known)
        return;
    write_noted(LOG_WARN, &errors);
    write_noted(LOG_INFO, &went_on);
}

/* --- reclaims --- */

/* By the net figure: memory that went back and was taken anew within one reclaim is no gain, and
 * may add up to more than the card has. */
static uint64_t bytes_before(const struct vramgc_action *action) {
    return action->observed ? action->before_bytes : action->after_bytes + action->net_bytes;
}

/* As SD.Next names nested functions, a:b; a word has no blank. */
static void add_function(struct text *text, const struct vramgc_action *action) {
    char phase[sizeof action->phase];
    text_copy(phase, sizeof phase, action->phase);
    for (char *p = phase; *p; p++)
        *p = *p == ' ' ? '-' : *p;
    text_format(text, "%s%s%s", phase, *phase ? ":" : "",
                *action->function ? action->function : "?");
}

static void add_gib(struct text *text, const char *name, uint64_t bytes) {
    text_format(text, " %s={'gpu': ", name);
    text_add_decimal(text, (double)bytes / 0x1p30, 2);
    text_add(text, "}");
}

/* One line in the form that SD.Next has written since 2025 for its own collections: GiB, and
 * percent of the card. It names no device. */
static void log_as_sdnext(const struct vramgc_action *action, uint64_t total_bytes) {
    static const char *const reasons[VRAMGC_REASONS] = {
        [VRAMGC_REASON_NONE] = "?",          [VRAMGC_REASON_THRESHOLD] = "threshold",
        [VRAMGC_REASON_LOWVRAM] = "lowvram", [VRAMGC_REASON_REQUEST] = "request",
        [VRAMGC_REASON_REFUSED] = "refused", [VRAMGC_REASON_PEER] = "peer",
    };
    TEXT_OVER(text, line, 400);
    text_add(&text, "GC:");
    add_gib(&text, "current", action->after_bytes);
    add_gib(&text, "prev", bytes_before(action));
    text_add(&text, " load={'gpu': ");
    double used = total_bytes ? 100.0 * (double)action->used_bytes / (double)total_bytes : 0;
    text_add_decimal(&text, used, 1);
    text_add(&text, "}");
    add_gib(&text, "gc", minus_u64(bytes_before(action), action->after_bytes));
    if (action->device > 0)
        text_format(&text, " device=cuda:%u", action->device);
    text_add(&text, " fn=");
    add_function(&text, action);
    text_format(&text, " why=%s time=", reasons[action->reason]);
    text_add_decimal(&text, (double)action->took_ns / 1e9, 3);
    LOG(LOG_DEBUG, "%s", line);
}

static void log_action(const struct vramgc_action *action, uint64_t total_bytes) {
    static const char *const kinds[VRAMGC_ACTION_KINDS] = {
        [VRAMGC_ACTION_NONE] = "?",
        [VRAMGC_ACTION_SOFT_OOM] = "made one soft out-of-memory",
        [VRAMGC_ACTION_FLUSH] = "emptied PyTorch's cache",
        [VRAMGC_ACTION_TRIM] = "trimmed the pool",
        [VRAMGC_ACTION_PAGES] = "gave idle pages back",
    };
    static const char *const reasons[VRAMGC_REASONS] = {
        [VRAMGC_REASON_NONE] = "?",
        [VRAMGC_REASON_THRESHOLD] = "utilisation above the threshold",
        [VRAMGC_REASON_LOWVRAM] = "lowvram, at rest",
        [VRAMGC_REASON_REQUEST] = "asked for",
        [VRAMGC_REASON_REFUSED] = "a request was refused",
        [VRAMGC_REASON_PEER] = "another program asked",
    };
    char had[32], after[32], took[32];
    struct text text = TEXT_IN(had);
    text_add_bytes(&text, bytes_before(action));
    text = TEXT_IN(after);
    text_add_bytes(&text, action->after_bytes);
    text = TEXT_IN(took);
    text_add_duration(&text, action->took_ns);
    LOG(LOG_INFO, "gpu%u %s%s: %s -> %s in %s (%s)", action->device,
        action->observed ? "would have " : "", kinds[action->kind], had, after, took,
        reasons[action->reason]);
    log_as_sdnext(action, total_bytes);
}

static void log_one(const struct vramgc_action *action) {
    log_action(action, figure_get(&store_file()->devices[action->device].total_bytes));
}

void reclaim_log_update(struct vramgc_action *action) {
    _Atomic uint64_t *open = &self.open[action->device][action->reason];
    if (action->sequence) {
        store_action_again(action);
        return;
    }
    atomic_store(open, BEGINNING);
    action->sequence = store_action(action);
    atomic_store(open, action->sequence);
}

/* The next one may go on already. One that was passed over is logged late, not in its place. */
void reclaim_log_end(const struct vramgc_action *action) {
    uint64_t sequence = action->sequence;
    lock_take(&self.lock);
    atomic_compare_exchange_strong(&self.open[action->device][action->reason], &sequence, 0);
    bool passed_over = action->sequence <= self.logged;
    lock_give(&self.lock);
    if (passed_over)
        log_one(action);
}

/* Looks at the next action, and says whether it is logged now: one that goes on is passed over.
 * False: there is none, or it is being written. */
static bool look_at_next(struct vramgc_action *action, bool *log_now) {
    uint64_t written = figure_get(&store_file()->actions_written);
    if (written - self.logged > VRAMGC_MAX_ACTIONS)
        self.logged = written - VRAMGC_MAX_ACTIONS;
    if (self.logged == written || !store_action_at(self.logged, action))
        return false;
    uint64_t open = atomic_load(&self.open[action->device][action->reason]);
    if (open == BEGINNING)
        return false; /* it may be this one */
    *log_now = open != action->sequence;
    self.logged++;
    return true;
}

void reclaim_log_write(void) {
    struct vramgc_action action;
    for (bool more = true; more;) {
        bool log_now = false;
        lock_take(&self.lock);
        more = look_at_next(&action, &log_now);
        lock_give(&self.lock);
        if (log_now)
            log_one(&action);
    }
}
