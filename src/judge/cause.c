/* cause.c: see cause.h. It must not guess: where the file does not tell, the cause is that memory
 * was lacking. */
#include "judge/cause.h"
#include "judge/growers.h"
#include "judge/who.h"
#include "base/base.h"

#include <signal.h>
#include <string.h>

/* The least of the card that is worth being named as the cause: with 3 % less no job becomes
 * another one. And the least that, where no process is known by name, is more than the driver's own
 * and an idle desktop's (prove/card.c). */
enum { CAUSE_SHARE = 32 };
#define UNNAMED_BYTES ((uint64_t)1 << 30)

/* Asked for after the refusal, so it may be told; else it is of an earlier one. Where there was
 * another error since then, it is of that. */
static bool neighbours_known(const struct oom *oom) {
    const struct vramgc_neighbours *neighbours = &oom->device->neighbours;
    const struct vramgc_refusal *then = oom->refusal;
    if (!neighbours->time_ns || neighbours->time_ns < then->time_ns)
        return false;
    for (size_t i = 0; i < oom->record->refusal_count; i++) {
        const struct vramgc_refusal *later = oom->record->refusals[i];
        if (later->reported && later->device == then->device && later->time_ns > then->time_ns &&
            later->time_ns <= neighbours->time_ns)
            return false;
    }
    return true;
}

/* What the reading calls used and is not ours. */
static void add_neighbours(struct oom *oom) {
    struct oom_sum *sum = &oom->sum;
    const struct vramgc_neighbours *neighbours = &oom->device->neighbours;
    for (uint64_t i = 0; neighbours_known(oom) && i < neighbours->count; i++) {
        uint64_t bytes = min_u64(neighbours->list[i].bytes, sum->rest_bytes);
        sum->neighbour_bytes[sum->neighbour_count++] = bytes;
        sum->rest_bytes -= bytes;
    }
}

static void add_up(struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    struct oom_sum *sum = &oom->sum;
    if (r->cause == VRAMGC_REFUSAL_HOST || r->held_bytes > r->total_bytes)
        return;
    uint64_t of_pytorch = minus_u64(r->held_bytes, r->other_bytes);
    sum->known = r->total_bytes > 0;
    sum->total_bytes = r->total_bytes;
    sum->step_bytes = min_u64(r->step_bytes, r->held_bytes - of_pytorch);
    sum->code_bytes = r->held_bytes - of_pytorch - sum->step_bytes;
    sum->live_bytes = min_u64(r->allocated_bytes, of_pytorch);
    sum->idle_bytes = of_pytorch - sum->live_bytes;
    sum->free_bytes = min_u64(r->free_bytes, r->total_bytes - r->held_bytes);
    sum->rest_bytes = r->total_bytes - r->held_bytes - sum->free_bytes;
    sum->headroom_bytes = min_u64(r->limited_bytes, sum->rest_bytes);
    sum->rest_bytes -= sum->headroom_bytes;
    add_neighbours(oom);
}

uint64_t oom_others_bytes(const struct oom_sum *sum) {
    uint64_t bytes = sum->neighbour_count ? 0 : sum->rest_bytes;
    for (uint64_t i = 0; i < sum->neighbour_count; i++)
        bytes += sum->neighbour_bytes[i];
    return bytes;
}

/* Whether without other processes, and other code in this one, it would have fitted: then who of
 * both has more. comfy-aimdo drops what weights it can before anything is refused. */
static enum oom_cause cause_of_full(const struct oom *oom) {
    const struct oom_sum *sum = &oom->sum;
    uint64_t least = max_u64(oom->lacking_bytes, sum->total_bytes / CAUSE_SHARE);
    uint64_t processes = oom_others_bytes(sum);
    uint64_t code = oom->of_aimdo ? 0 : sum->code_bytes;
    if (!sum->neighbour_count && sum->rest_bytes < max_u64(UNNAMED_BYTES, sum->total_bytes / 8))
        processes = 0;
    if (!sum->known || processes + code < least)
        return CAUSE_SMALL;
    return processes >= code ? CAUSE_PROCESS : CAUSE_CODE;
}

static bool of_hook(const struct oom *oom, const char *part) {
    const char *name = stats_file_hook_name(oom->record->file, oom->refusal->hook);
    return name && strstr(name, part);
}

static bool of_pool(const struct oom *oom) {
    return of_hook(oom, "Async");
}

/* PyTorch empties its cache before it reports out of memory. What no block is in and yet stays is
 * in a pool of its own: of a captured graph, or of a torch.cuda.MemPool. Under compact that may be
 * addresses alone. */
static bool of_private_pool(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    return r->reported && oom->kept_bytes > 0 &&
           oom->kept_bytes + r->free_bytes >= r->request_bytes;
}

/* Without it the request would have fitted. Where what is idle would have sufficed, too, it is
 * whichever is more: a video that is put together on the card grows beside a pool full of pieces.
 */
static bool growth_explains(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    uint64_t grown = growth_bytes(&oom->growth);
    if (r->cause == VRAMGC_REFUSAL_FRAGMENTED)
        return oom->growth.grows && grown >= r->idle_bytes &&
               grown >= minus_u64(r->request_bytes, r->free_bytes);
    return oom->growth.grows && grown >= oom->lacking_bytes;
}

static bool was_reserved(const struct oom *oom) {
    uint64_t reserved = oom->refusal->limited_bytes;
    return reserved > 0 && reserved >= oom->lacking_bytes;
}

static enum oom_cause cause_of(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    if (r->cause == VRAMGC_REFUSAL_HOST)
        return CAUSE_HOST;
    if (r->total_bytes > 0 && r->request_bytes > r->total_bytes)
        return was_reserved(oom) ? CAUSE_RESERVED : CAUSE_TOO_LARGE;
    if (r->cause == VRAMGC_REFUSAL_LIMIT)
        return CAUSE_LIMIT;
    if (r->cause == VRAMGC_REFUSAL_DRIVER)
        return CAUSE_DRIVER;
    if (growth_explains(oom))
        return CAUSE_GROWTH;
    if (oom->pile && r->cause != VRAMGC_REFUSAL_FRAGMENTED)
        return CAUSE_GROWTH;
    if (of_private_pool(oom))
        return CAUSE_PRIVATE;
    if (r->cause == VRAMGC_REFUSAL_FRAGMENTED)
        return of_pool(oom) ? CAUSE_POOL : CAUSE_FRAGMENTATION;
    if (was_reserved(oom))
        return CAUSE_RESERVED;
    if (r->cause == VRAMGC_REFUSAL_ROUNDED)
        return CAUSE_ROUNDED;
    return r->cause == VRAMGC_REFUSAL_FULL ? cause_of_full(oom) : CAUSE_UNKNOWN;
}

/* A card that is full by a step of PyTorch's is too small, too. */
enum oom_cause cause_as_told(enum oom_cause cause) {
    return cause == CAUSE_ROUNDED ? CAUSE_SMALL : cause;
}

const char *cause_name(enum oom_cause cause) {
    static const char *const names[CAUSES] = {
        [CAUSE_UNKNOWN] = "not known",
        [CAUSE_FRAGMENTATION] = "fragmentation",
        [CAUSE_POOL] = "the driver's pool",
        [CAUSE_PRIVATE] = "CUDA graphs or a MemPool",
        [CAUSE_SMALL] = "a card that is too small",
        [CAUSE_GROWTH] = "tensors that grow",
        [CAUSE_PROCESS] = "another process",
        [CAUSE_CODE] = "other code in the program",
        [CAUSE_TOO_LARGE] = "larger than the card",
        [CAUSE_DRIVER] = "the driver",
        [CAUSE_LIMIT] = "a limit set for PyTorch",
        [CAUSE_RESERVED] = "a limit set for vramgc",
        [CAUSE_HOST] = "RAM",
    };
    return names[cause_as_told(cause)];
}

bool is_told_with(const struct oom *told, const struct vramgc_refusal *refusal) {
    return !refusal->granted && refusal->reported == told->refusal->reported;
}

/* What is kept for a step serves its tensors. */
static uint64_t lacking_bytes_of(const struct vramgc_refusal *refusal) {
    return minus_u64(refusal->request_bytes,
                     refusal->free_bytes + refusal->idle_bytes + refusal->step_bytes);
}

/* Models that are still there though their work is done pile up from job to job, too few for
 * growth. Where the first left next to nothing, or one less than the one before, the program takes
 * its models away by itself, and what is there now is the one at work. */
static uint64_t stayed_bytes(const struct oom *oom) {
    uint64_t left[VRAMGC_MAX_JOBS], share = oom->sum.total_bytes / CAUSE_SHARE;
    uint64_t count = left_by_jobs(oom->record, oom->device, oom->refusal->time_ns, left);
    for (uint64_t i = 0; i < count; i++)
        if (left[i] < (i ? minus_u64(left[i - 1], share) : share))
            return 0;
    uint64_t bytes = count ? minus_u64(left[count - 1], left[0]) : 0;
    return bytes >= max_u64(oom->lacking_bytes, share) ? bytes : 0;
}

struct oom oom_of(const struct stats_file *record, const struct vramgc_refusal *refusal) {
    uint32_t index = refusal->device < VRAMGC_MAX_DEVICES ? refusal->device : 0;
    const char *library = library_name(record->file, refusal->library);
    struct oom oom = {
        .record = record, .refusal = refusal, .device = &record->file->devices[index]};
    add_up(&oom);
    oom.kept_bytes = min_u64(refusal->kept_bytes, oom.sum.idle_bytes);
    oom.growth = growth_until(record, oom.device, refusal->turns, refusal->time_ns);
    oom.lacking_bytes = lacking_bytes_of(refusal);
    oom.stayed_bytes = stayed_bytes(&oom);
    oom.pile = growers_pile(record->file, oom.device, refusal);
    oom.of_aimdo = library && strncmp(library, "aimdo", 5) == 0;
    oom.of_context = of_hook(&oom, "PrimaryCtx");
    oom.cause = cause_of(&oom);
    oom.of_pytorch = refusal->reported || oom.cause == CAUSE_HOST || of_pool(&oom) ||
                     oom.device->stats.block_allocs == 0;
    return oom;
}

/* It took memory again after what the error let go, was refused some, or began a job. */
static bool worked_after(const struct oom *oom) {
    const struct stats_file *record = oom->record;
    uint64_t then_ns = oom->refusal->time_ns;
    bool worked = oom->device->floors.turns > oom->refusal->turns;
    if (record->refusal_count > 0)
        worked = worked || record->refusals[record->refusal_count - 1]->time_ns > then_ns;
    if (record->job_count > 0)
        worked = worked || record->jobs[record->job_count - 1]->time_ns > then_ns;
    return worked;
}

/* As by Ctrl-C: with Python's own status, or a shell's. */
static bool stopped_by_user(const struct stats_file *record) {
    int by = record->state == PROCESS_KILLED ? record->signal : record->code - 128;
    return by == SIGINT || by == SIGTERM || by == SIGHUP;
}

/* A program that ends by its error may take long to exit: that it still runs says nothing. */
bool oom_program_went_on(const struct oom *oom) {
    const struct stats_file *record = oom->record;
    return record->code == 0 || worked_after(oom) ||
           (stopped_by_user(record) && record->elapsed_ns > oom->refusal->time_ns + SECOND_NS);
}
