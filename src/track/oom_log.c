/* oom_log.c: see oom_log.h. It must not fill the log of a program that tries again and again: of
 * all that happens within a second the latest is told, and the others are counted. */
#include "track/oom_log.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"

/* One line a second can be read. */
#define PAUSE_NS SECOND_NS

/* Of one kind, since the last line. */
struct noted {
    struct vramgc_refusal latest, before;
    uint64_t count;
};

static struct {
    struct lock lock; /* what was noted */
    struct noted errors, went_on;
    uint64_t noted_ns;
    uint64_t written_ns;
} self;
CHILD_OPENS(self.lock);

static void note(struct noted *noted, const struct vramgc_refusal *refusal) {
    noted->before = noted->latest;
    noted->latest = *refusal;
    noted->count++;
}

void oom_log_note(const struct vramgc_refusal *refusal) {
    lock_take(&self.lock);
    note(&self.errors, refusal);
    self.noted_ns = clock_ns();
    lock_give(&self.lock);
}

void oom_log_went_on(const struct vramgc_refusal *refusal) {
    lock_take(&self.lock);
    bool latest = self.errors.latest.time_ns == refusal->time_ns;
    if (self.errors.count > 0 && latest) { /* else it took so long that it was told */
        self.errors.latest = self.errors.before;
        self.errors.count--;
        note(&self.went_on, refusal);
    }
    lock_give(&self.lock);
}

static void add_part(struct text *text, const char *before, uint64_t bytes, const char *after) {
    text_add(text, before);
    text_add_bytes(text, bytes);
    text_add(text, after);
}

/* Where the total is unknown, so are the other figures of the driver's. */
static void add_device(struct text *text, const struct vramgc_refusal *r) {
    uint64_t of_pytorch = minus_u64(r->held_bytes, r->other_bytes);
    uint64_t others = minus_u64(r->total_bytes, r->held_bytes + r->free_bytes + r->limited_bytes);
    text_format(text, "gpu%u: %s: ", r->device,
                r->reported == VRAMGC_WENT_ON ? "refused, and the work went on without it"
                                              : "out of memory");
    add_part(text, "", r->request_bytes, " wanted; ");
    add_part(text, "live ", r->allocated_bytes, ", ");
    add_part(text, "idle ", minus_u64(of_pytorch, r->allocated_bytes), "");
    if (r->other_bytes)
        add_part(text, ", libraries here ", r->other_bytes, "");
    if (r->total_bytes) {
        add_part(text, ", others and driver ", others, "");
        if (r->limited_bytes)
            add_part(text, ", kept by VRAMGC_HEADROOM or VRAMGC_CAP ", r->limited_bytes, "");
        add_part(text, ", free ", r->free_bytes, "");
    }
}

static void add_host(struct text *text, const struct vramgc_refusal *r) {
    add_part(text, "the host refused page-locked memory: ", r->request_bytes, " wanted; ");
    add_part(text, "", r->held_bytes, " pinned");
    if (r->total_bytes)
        add_part(text, ", ", r->free_bytes, " available");
}

static void write(enum option_log level, const struct noted *noted) {
    char line[320];
    struct text text = TEXT_IN(line);
    if (noted->count == 0)
        return;
    if (noted->latest.cause == VRAMGC_REFUSAL_HOST)
        add_host(&text, &noted->latest);
    else
        add_device(&text, &noted->latest);
    if (noted->count > 1)
        text_format(&text, " (and %llu more since the last such line)",
                    (unsigned long long)(noted->count - 1));
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
    write(LOG_WARN, &errors);
    write(LOG_INFO, &went_on);
}
