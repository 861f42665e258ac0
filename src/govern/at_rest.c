/* at_rest.c: see at_rest.h. It must not hold the allocator's locks, or the GIL, for longer than a
 * user would notice in a click. When it acts, and how often, is host/rule.h's. */
#include "govern/at_rest.h"

#include "base/log.h"
#include "base/text.h"
#include "govern/python.h"
#include "host/allocator.h"
#include "host/memory.h"
#include "host/rule.h"
#include "track/device.h"
#include "track/process_state.h"
#include "track/stream.h"

/* To read the process's processor time takes 0.3 us. */
#define LOOK_NS (50 * MILLISECOND_NS)

/* While the program works, so that its rest is seen soon: as looks of the device come by then. */
#define WORK_STEP_NS (100 * MILLISECOND_NS)

/* What one release may take, half of what a user takes for at once (0.1 s); what is left the next
 * look does. (glibc's cannot be stopped.) */
#define BUDGET_NS (50 * MILLISECOND_NS)

/* To ask the allocator what is in use takes a tenth of what the program itself used since: one that
 * does nothing is not asked again. */
#define ASK_PART 10

/* One release, in as many pieces as it takes. */
struct releasing {
    struct host_rule rule;
    struct host_has before; /* all 0: none is under way */
    uint64_t took_ns;
};

static struct {
    struct host_pace pace;
    struct releasing of_heap, of_pinned;
    struct host_has heap;
    uint64_t ask_again_ns; /* by the program's processor time */
} self;

static struct host_has pinned(void) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < VRAMGC_MAX_DEVICES; i++)
        if (device_if_ready(i))
            bytes += figure_get(&device_if_ready(i)->out->stats.pinned_bytes.current);
    return (struct host_has){bytes, 0, bytes};
}

static void ask_what_is_in_use(void) {
    uint64_t begun_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    self.heap = host_allocator_has();
    self.ask_again_ns =
        self.pace.program_ns + ASK_PART * (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns);
    figure_set(&store_file()->host.in_use_bytes, self.heap.in_use_bytes);
}

/* Beside what is in use it has page-locked memory, too, and what was mapped. */
static struct host_has heap(void) {
    if (self.pace.program_ns >= self.ask_again_ns)
        ask_what_is_in_use();
    self.heap.bytes = host_memory_own_bytes();
    if (!self.heap.in_use_bytes)
        self.heap.kept_bytes = self.heap.bytes;
    return self.heap;
}

static bool must_not(void *context) {
    (void)context;
    return capture_active();
}

static bool release_heap(void) {
    return host_allocator_release(BUDGET_NS);
}

static bool release_pinned(void) {
    python_empty_host_cache(must_not, NULL);
    return true;
}

/* By processor time: on a busy machine the clock on the wall tells what others took, too.
 * of: how much there is; release: false while it has not finished. */
static void look(struct releasing *releasing, uint64_t now_ns, struct host_has (*of)(void),
                 bool (*release)(void), uint64_t *released_bytes) {
    struct host_has has = of();
    bool under_way = releasing->before.bytes;
    if (!under_way && !host_release_is_due(&releasing->rule, now_ns, has))
        return;
    if (!under_way)
        releasing->before = has;
    uint64_t begun_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    bool over = release();
    uint64_t took_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    struct host_has after = of();
    releasing->took_ns += took_ns;
    figure_add(&store_file()->process.host_release_ns, took_ns);
    figure_add(released_bytes, minus_u64(has.bytes, after.bytes));
    if (!over)
        return;
    figure_add(&store_file()->process.host_releases, 1);
    host_released(&releasing->rule, now_ns, releasing->took_ns, releasing->before, after);
    LOG(LOG_DEBUG, "host: %s gave back %llu MiB in %llu ms",
        release == release_heap ? host_allocator_name() : "PyTorch's page-locked cache",
        (unsigned long long)(minus_u64(releasing->before.bytes, after.bytes) / MEBIBYTE),
        (unsigned long long)(releasing->took_ns / MILLISECOND_NS));
    releasing->before = (struct host_has){0};
    releasing->took_ns = 0;
}

static void look_at_all(uint64_t now_ns) {
    struct vramgc_process_stats *process = &store_file()->process;
    look(&self.of_pinned, now_ns, pinned, release_pinned, &process->pinned_released_bytes);
    if (host_allocator_name())
        look(&self.of_heap, clock_ns(), heap, release_heap, &process->host_released_bytes);
}

/* Whose allocator does not say what is in use, of that is not known what is not. */
static void observe(uint64_t now_ns) {
    struct host_has has = heap();
    if (has.in_use_bytes)
        figure_add(&store_file()->process.host_unused_bytes,
                   host_release_observed(&self.of_heap.rule, now_ns, has));
}

static void note_call(void) {
    const struct vramgc_process_stats *process = &store_file()->process;
    struct vramgc_host *host = &store_file()->host;
    if (!*host->call &&
        (figure_get(&process->host_released_bytes) || figure_get(&process->host_unused_bytes)))
        text_copy(host->call, sizeof host->call, host_allocator_call());
}

uint64_t at_rest_look(uint64_t now_ns) {
    const struct options *options = settings_options();
    if (options->host == HOST_OFF)
        return UINT64_MAX;
    if (now_ns - self.pace.time_ns < LOOK_NS)
        return LOOK_NS;
    bool rests = host_rests(&self.pace, now_ns, clock_read_ns(CLOCK_PROCESS_CPUTIME_ID),
                            clock_read_ns(CLOCK_THREAD_CPUTIME_ID));
    if (options->host == HOST_OBSERVE || options->mode == MODE_OBSERVE) {
        if (rests)
            observe(now_ns);
    } else if (rests)
        look_at_all(now_ns);
    note_call();
    return !rests ? WORK_STEP_NS : self.of_heap.before.bytes ? LOOK_NS : UINT64_MAX;
}
