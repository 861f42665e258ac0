/* oom_log.c: see oom_log.h. It must not fill the log of a program that tries again and again: of
 * all that happens within a second the latest is told, and the others are counted. */
#include "track/oom_log.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"

/* One line a second can be read. */
#define PAUSE_NS SECOND_NS

static struct {
    struct lock lock; /* latest and count */
    struct vramgc_refusal latest;
    uint64_t count; /* since the last line */
    uint64_t written_ns;
} self;

void oom_log_note(const struct vramgc_refusal *refusal) {
    lock_take(&self.lock);
    self.latest = *refusal;
    self.count++;
    lock_give(&self.lock);
}

void oom_log_unlock(void) {
    lock_force_open(&self.lock);
}

static void add_part(struct text *text, const char *before, uint64_t bytes, const char *after) {
    text_add(text, before);
    text_add_bytes(text, bytes);
    text_add(text, after);
}

/* What the driver told is unknown where the total is. */
static void add_device(struct text *text, const struct vramgc_refusal *r) {
    uint64_t of_pytorch = minus_u64(r->held_bytes, r->other_bytes);
    uint64_t others = minus_u64(r->total_bytes, r->held_bytes + r->free_bytes);
    text_format(text, "gpu%u: out of memory: ", r->device);
    add_part(text, "", r->request_bytes, " wanted; ");
    add_part(text, "live ", r->allocated_bytes, ", ");
    add_part(text, "idle ", minus_u64(of_pytorch, r->allocated_bytes), "");
    if (r->other_bytes)
        add_part(text, ", other code here ", r->other_bytes, "");
    if (r->total_bytes) {
        add_part(text, ", others and driver ", others, "");
        add_part(text, ", free ", r->free_bytes, "");
    }
}

static void add_host(struct text *text, const struct vramgc_refusal *r) {
    add_part(text, "the host refused page-locked memory: ", r->request_bytes, " wanted; ");
    add_part(text, "", r->held_bytes, " pinned");
    if (r->total_bytes)
        add_part(text, ", ", r->free_bytes, " available");
}

void oom_log_write(bool at_end) {
    char line[300];
    struct text text = TEXT_IN(line);
    if (!at_end && self.written_ns && clock_ns() - self.written_ns < PAUSE_NS)
        return;
    lock_take(&self.lock);
    struct vramgc_refusal refusal = self.latest;
    uint64_t count = self.count;
    self.count = 0;
    lock_give(&self.lock);
    if (count == 0)
        return;
    if (refusal.cause == VRAMGC_REFUSAL_HOST)
        add_host(&text, &refusal);
    else
        add_device(&text, &refusal);
    if (count > 1)
        text_format(&text, " (and %llu more since the last such line)",
                    (unsigned long long)(count - 1));
    LOG(LOG_WARN, "%s", line);
    self.written_ns = clock_ns();
}
