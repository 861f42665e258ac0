/* cause.c: see cause.h. It must not guess: where the file does not tell, the cause is that memory
 * was lacking. */
#include "judge/cause.h"
#include "judge/growers.h"
#include "judge/who.h"
#include "read/derived.h"
#include "base/base.h"

#include <signal.h>
#include <string.h>

/* The least of the card that is worth being named as the cause: with 3 % less no job becomes
 * another one. And the least that, where no process is known by name, is more than the driver's own
 * and an idle desktop's (prove/child.c). */
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

/* They are part of the memory that the reading calls used and that is not ours. */
static void sum_neighbours(struct oom *oom) {
    struct oom_sum *sum = &oom->sum;
    const struct vramgc_neighbours *neighbours = &oom->device->neighbours;
    for (uint64_t i = 0; neighbours_known(oom) && i < neighbours->count; i++) {
        uint64_t bytes = min_u64(neighbours->list[i].bytes, sum->rest_bytes);
        sum->neighbour_bytes[sum->neighbour_count++] = bytes;
        sum->rest_bytes -= bytes;
        sum->others_bytes += bytes;
    }
    if (!sum->neighbour_count)
        sum->others_bytes = sum->rest_bytes;
}

static void add_up(struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    struct oom_sum *sum = &oom->sum;
    if (r->cause == VRAMGC_CAUSE_HOST || r->held_bytes > r->total_bytes)
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
    sum_neighbours(oom);
}

static bool of_hook(const struct oom *oom, const char *part) {
    const char *name = stats_file_hook_name(oom->record->file, oom->refusal->hook);
    return name && strstr(name, part);
}

static bool of_pool(const struct oom *oom) {
    return of_hook(oom, "Async");
}

/* PyTorch empties its cache before it reports out of memory. What no block is in and yet stays is
 * in a pool of its own: of a captured graph, or of a torch.cuda.MemPool, whose idle pages serve all
 * in mode compact. Little may be other segments, which wait for the GPU. */
static bool of_private_pool(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    bool graphs_alone = stats_file_mode(oom->record->file) == MODE_COMPACT;
    return r->reported && oom->kept_bytes >= oom->sum.total_bytes / CAUSE_SHARE &&
           oom->kept_bytes + r->free_bytes >= r->request_bytes &&
           (!graphs_alone || oom->record->file->process.captures > 0);
}

/* One piece that would leave next to nothing is no help: in pages a VAE needs 1.004 of what is
 * live, sdxl 1.02 (tests/lab/FIGURES.md). Three programs that would have had 6 to 11 MiB left on a
 * card of 8 GiB lacked memory in pages, too. */
static uint32_t cause_seen(const struct vramgc_refusal *r) {
    enum { NOTHING_SHARE = 128 };
    bool full =
        r->cause == VRAMGC_CAUSE_FRAGMENTED &&
        r->free_bytes + r->idle_bytes < r->request_bytes + r->allocated_bytes / NOTHING_SHARE;
    return full ? VRAMGC_CAUSE_FULL : r->cause;
}

/* Without it the request would have fitted. Where what is idle would have sufficed, too, it is
 * whichever is more: a video that is put together on the card grows beside a pool full of pieces.
 */
static bool growth_explains(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    uint64_t grown = growth_bytes(&oom->growth);
    if (oom->seen == VRAMGC_CAUSE_FRAGMENTED)
        return oom->growth.grows && grown >= r->idle_bytes &&
               grown >= minus_u64(r->request_bytes, r->free_bytes);
    return oom->growth.grows && grown >= oom->lacking_bytes;
}

bool oom_asked_in(const struct oom *oom, const char *phase) {
    const struct vramgc_site *site = who_asked(oom->record->file, oom->refusal);
    return site && strcmp(site->phase, phase) == 0;
}

/* The states come at the first step, one after another, as weights do when they are loaded; other
 * tensors of the step's at each. What there was before does not count, but for another optimizer's
 * states. */
static bool optimizer_fills(const struct oom *oom) {
    const struct vramgc_owners *owners = &oom->device->owners_at_oom;
    if (!oom_asked_in(oom, "optimizer"))
        return false;
    uint64_t states = 0, before = live_before(oom->record, oom->device, oom->refusal);
    for (uint64_t i = 0; i < owners->count; i++)
        if (strcmp(oom->record->file->sites[owners->list[i].site].phase, "optimizer") == 0)
            states += owners->list[i].bytes;
    return oom->load.site ||
           (states >= oom->refusal->request_bytes &&
            before + states <= oom->refusal->allocated_bytes + oom->refusal->request_bytes);
}

/* Of a load that was not done: what its files have more, else as much again; not one request. */
static uint64_t wanted_bytes(const struct oom *oom) {
    uint64_t weights = oom->record->file->weights_bytes, loaded = oom->load.bytes;
    uint64_t rest = weights > loaded ? weights - loaded : loaded;
    return oom->load.site ? max_u64(rest, oom->lacking_bytes) : oom->lacking_bytes;
}

static bool more_was_to_come(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    return oom->optimizer || (oom->load.site && r->free_bytes + r->idle_bytes < wanted_bytes(oom));
}

/* These lead to a cause, beside what the library saw. */
enum sight {
    OVERSIZE = 1 << 0,   /* the request is larger than the card */
    HELD_BACK = 1 << 1,  /* VRAMGC_HEADROOM or VRAMGC_CAP kept enough */
    GROWN = 1 << 2,      /* what stays live has grown by enough */
    PILED = 1 << 3,      /* whoever asked has most of it already, in tensors of this size, and
                          * earlier jobs did not leave enough */
    KEPT = 1 << 4,       /* a private pool keeps enough */
    OF_POOL = 1 << 5,    /* the driver's pool was asked */
    BY_PROCESS = 1 << 6, /* without other processes, or code, it would have fitted: who has more */
    BY_CODE = 1 << 7,
    UNDER_WAY = 1 << 8, /* a load, or an optimizer's step: what the request lacked says little */
};

const struct cause_row cause_rows[] = {
    {{HOST, 0, 0}, VRAMGC_CAUSE_HOST},
    {{OOM, OVERSIZE | HELD_BACK, 0}, VRAMGC_CAUSE_RESERVED},
    {{OOM, OVERSIZE, 0}, VRAMGC_CAUSE_TOO_LARGE},
    {{LIMIT, 0, 0}, VRAMGC_CAUSE_LIMIT},
    {{DRIVER, 0, 0}, VRAMGC_CAUSE_DRIVER},
    {{OOM, UNDER_WAY, HELD_BACK | BY_PROCESS | BY_CODE}, VRAMGC_CAUSE_FULL},
    {{OOM, GROWN, 0}, VRAMGC_CAUSE_GROWTH},
    {{OOM & ~FRAGMENTED, PILED, 0}, VRAMGC_CAUSE_GROWTH},
    {{OOM, KEPT, 0}, VRAMGC_CAUSE_PRIVATE},
    {{FRAGMENTED, OF_POOL, 0}, VRAMGC_CAUSE_POOL},
    {{FRAGMENTED, 0, 0}, VRAMGC_CAUSE_FRAGMENTED},
    {{OOM, HELD_BACK, 0}, VRAMGC_CAUSE_RESERVED},
    {{ROUNDED, 0, 0}, VRAMGC_CAUSE_ROUNDED},
    {{FULL, BY_PROCESS, 0}, VRAMGC_CAUSE_PROCESS},
    {{FULL, BY_CODE, 0}, VRAMGC_CAUSE_CODE},
    {{FULL, 0, 0}, VRAMGC_CAUSE_FULL},
    {{OOM, 0, 0}, VRAMGC_CAUSE_UNKNOWN},
};
const size_t cause_row_count = ARRAY_LENGTH(cause_rows);

const struct cause_names cause_names[VRAMGC_CAUSES] = {
#define CAUSE(cause, ...) [VRAMGC_CAUSE_##cause] = {__VA_ARGS__},
#include "causes.def"
};

/* Without other processes, and other code in this one, it would have fitted: then who of both has
 * more. comfy-aimdo drops what weights it can before anything is refused. */
static enum sight by_whom(const struct oom *oom) {
    const struct oom_sum *sum = &oom->sum;
    uint64_t least = max_u64(wanted_bytes(oom), sum->total_bytes / CAUSE_SHARE);
    uint64_t processes = sum->others_bytes;
    uint64_t code = oom->of_aimdo ? 0 : sum->code_bytes;
    if (!sum->neighbour_count && sum->rest_bytes < max_u64(UNNAMED_BYTES, sum->total_bytes / 8))
        processes = 0;
    if (!sum->known || processes + code < least)
        return 0;
    return processes >= code ? BY_PROCESS : BY_CODE;
}

static enum vramgc_cause find_cause(const struct oom *oom) {
    const struct vramgc_refusal *r = oom->refusal;
    uint64_t reserved = r->limited_bytes;
    const struct cause_row *row = cause_rows;
    struct facts facts;
    facts_begin(&facts, oom->seen < VRAMGC_CAUSES_SEEN ? 1u << oom->seen : UNKNOWN);
    fact_if(&facts, r->total_bytes > 0 && r->request_bytes > r->total_bytes, OVERSIZE);
    fact_if(&facts, reserved > 0 && reserved >= oom->lacking_bytes, HELD_BACK);
    fact_if(&facts, growth_explains(oom), GROWN);
    fact_if(&facts, oom->pile && !oom->stayed_bytes, PILED);
    fact_if(&facts, of_private_pool(oom), KEPT);
    fact_if(&facts, of_pool(oom), OF_POOL);
    fact_if(&facts, more_was_to_come(oom), UNDER_WAY);
    fact_if(&facts, true, by_whom(oom));
    while (!facts_fit(&facts, &row->when, ""))
        row++;
    return row->cause;
}

/* A request that came when asked for again lacked little; else it is named as in the verdict. */
const char *refusal_why(const struct stats_file *record, const struct vramgc_refusal *refusal) {
    uint32_t seen = refusal->cause;
    if (!refusal->granted)
        return cause_names[oom_of(record, refusal).cause].name;
    if (seen == VRAMGC_CAUSE_FRAGMENTED && stats_file_mode(record->file) == MODE_COMPACT)
        return "idle memory"; /* whose pieces are no harm there */
    return cause_names[seen < VRAMGC_CAUSES_SEEN ? seen : VRAMGC_CAUSE_UNKNOWN].granted;
}

bool is_told_with(const struct oom *told, const struct vramgc_refusal *refusal) {
    return !refusal->granted && refusal->reported == told->refusal->reported;
}

static uint64_t least_to_tell(const struct oom *oom) {
    return max_u64(oom->lacking_bytes, oom->sum.total_bytes / CAUSE_SHARE);
}

/* ---- the jobs and the errors around it ---- */

static uint64_t jobs_before(const struct oom *oom, const struct vramgc_refusal *refusal) {
    uint64_t left[VRAMGC_MAX_JOBS];
    return left_by_jobs(oom->record, oom->device, refusal->time_ns, left);
}

/* Work rests between two jobs. */
static bool is_of_this_job(const struct oom *oom, const struct vramgc_refusal *other) {
    return jobs_before(oom, other) == jobs_before(oom, oom->refusal);
}

/* Of this device, before this one. */
static bool is_earlier_error(const struct oom *oom, const struct vramgc_refusal *other) {
    return other->device == oom->refusal->device && other->time_ns < oom->refusal->time_ns &&
           !other->granted && other->reported == VRAMGC_REPORTED;
}

/* The error of the same work before this one. */
static const struct vramgc_refusal *error_before(const struct oom *oom) {
    const struct vramgc_refusal *found = NULL;
    for (size_t i = 0; i < oom->record->refusal_count; i++) {
        const struct vramgc_refusal *other = oom->record->refusals[i];
        if (is_earlier_error(oom, other) && who_asked(oom->record->file, other))
            found = other;
    }
    return found && is_of_this_job(oom, found) ? found : NULL;
}

/* Of an earlier job, which was not the first. */
static const struct vramgc_refusal *first_error(const struct oom *oom) {
    size_t i = 0, count = oom->record->refusal_count;
    while (i < count && !is_earlier_error(oom, oom->record->refusals[i]))
        i++;
    const struct vramgc_refusal *first = i < count ? oom->record->refusals[i] : NULL;
    return first && jobs_before(oom, first) && !is_of_this_job(oom, first) ? first : NULL;
}

/* Models that are still there though their work is done pile up from job to job, too few for
 * growth. Where the first left next to nothing, or one less than the one before, the program takes
 * its models away by itself, and what is there now is the one at work; but for what is there since
 * the first error, whatever the jobs before it left. */
static uint64_t stayed_bytes(const struct oom *oom) {
    const struct vramgc_refusal *error = oom->first_error;
    uint64_t left[VRAMGC_MAX_JOBS], share = oom->sum.total_bytes / CAUSE_SHARE;
    uint64_t from = error ? jobs_before(oom, error) : 1;
    uint64_t count = left_by_jobs(oom->record, oom->device, oom->refusal->time_ns, left);
    if (count <= from || (!error && left[0] < share))
        return 0;
    for (uint64_t i = from; i < count; i++)
        if (left[i] < minus_u64(left[i - 1], share))
            return 0;
    uint64_t before = live_before(oom->record, oom->device, oom->refusal);
    uint64_t bytes = minus_u64(min_u64(left[count - 1], before), left[from - 1]);
    return bytes >= least_to_tell(oom) ? bytes : 0;
}

/* A program that looks for the batch that fits asks for less each time, without a rest, and then
 * goes on. */
static void find_search(struct oom *oom) {
    enum { LEAST_TRIES = 3 };
    const struct vramgc_refusal *r = oom->refusal, *first = NULL;
    uint64_t tries = 0, latest = UINT64_MAX;
    for (size_t i = 0; i < oom->record->refusal_count; i++) {
        const struct vramgc_refusal *other = oom->record->refusals[i];
        if (other->device != r->device || other->site != r->site || !is_told_with(oom, other))
            continue;
        if (other->request_bytes >= latest)
            return;
        latest = other->request_bytes;
        first = tries++ ? first : other;
    }
    if (tries >= LEAST_TRIES && latest <= first->request_bytes / 4 * 3 &&
        who_asked(oom->record->file, r) && is_of_this_job(oom, first) && oom_program_went_on(oom))
        oom->tries = tries;
}

/* Live memory never fell below this between the two. */
static uint64_t lowest_between(const struct oom *oom, const struct vramgc_refusal *before) {
    const struct vramgc_floors *floors = &oom->device->floors;
    uint64_t lowest = min_u64(before->allocated_bytes, oom->refusal->allocated_bytes);
    uint64_t merged = max_u64(floors->merged, 1);
    uint64_t end = min_u64(oom->refusal->turns / merged + 1, floors->count);
    for (uint64_t i = before->turns / merged; before->turns < oom->refusal->turns && i < end; i++)
        lowest = min_u64(lowest, floors->bytes[i]);
    return lowest;
}

/* An error that is handled keeps the tensors of the functions that it came through. */
static void find_failed(struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    const struct vramgc_owners *owners = &oom->device->owners_at_oom;
    const struct vramgc_refusal *r = oom->refusal, *before = error_before(oom);
    const struct vramgc_site *site = before ? who_asked(file, before) : NULL;
    uint64_t bytes = 0;
    if (!site || site_loads(site) || site_is_lora(site) ||
        strncmp(site->function, "<module>", 8) == 0)
        return;
    for (uint64_t i = 0; i < owners->count; i++) {
        const struct vramgc_site *owner = &file->sites[owners->list[i].site];
        if (owner == site || (*site->phase && strcmp(owner->phase, site->phase) == 0))
            bytes += owners->list[i].bytes;
    }
    uint64_t kept = minus_u64(bytes, r->allocated_bytes - lowest_between(oom, before));
    if (kept < least_to_tell(oom))
        return;
    oom->at_once = before->thread != r->thread && before->site == r->site;
    oom->retried =
        !oom->at_once && before->site == r->site && before->request_bytes <= r->request_bytes;
    oom->failed = (struct oom_part){site, oom->at_once ? bytes : kept};
}

/* The function that most of what is more is of, if it does not load. */
static struct oom_part most_more(const struct oom *oom, const struct vramgc_who *then,
                                 const struct vramgc_who *now, uint64_t more) {
    for (uint32_t i = 0; now && i < now->count; i++) {
        const struct vramgc_site *site = &oom->record->file->sites[now->sites[i]];
        uint64_t bytes = who_more_than(then, now->sites[i], who_bytes(now, i));
        if (bytes > max_u64(more / 2, oom->sum.total_bytes / CAUSE_SHARE) && !site_loads(site))
            return (struct oom_part){site, bytes};
    }
    return (struct oom_part){0};
}

/* And it is not at work again. */
static bool has_now(const struct oom *oom, const struct vramgc_site *site, uint64_t least) {
    uint64_t index = (uint64_t)(site - oom->record->file->sites);
    const struct vramgc_owner *owner = who_find(&oom->device->owners_at_oom, index);
    return owner && owner->bytes >= least && index + 1 != oom->refusal->site;
}

/* The program did nothing for a second before this request, and a function had much then that the
 * job before had not left: of work that was no job, as it let nothing go. An error that is kept,
 * and was no out-of-memory, keeps the tensors of the functions that it came through. */
static void find_stale(struct oom *oom, const struct vramgc_job *before) {
    const struct vramgc_device *device = oom->device;
    uint64_t begin_ns = before->time_ns + before->took_ns, end_ns = oom->refusal->time_ns;
    for (uint64_t i = device->who_count; i-- > 0 && device->who[i].time_ns > begin_ns;) {
        const struct vramgc_who *rest = &device->who[i];
        bool rests = end_ns > rest->time_ns + SECOND_NS;
        end_ns = min_u64(end_ns, rest->time_ns);
        if (!rests)
            continue;
        struct oom_part part = most_more(oom, who_when(device, before), rest,
                                         minus_u64(rest->live_bytes, before->live_bytes));
        if (part.site && part.bytes >= least_to_tell(oom) &&
            has_now(oom, part.site, part.bytes / 2))
            oom->stale = part;
        return;
    }
}

/* Jobs around it: the program has rested before and since. */
static void find_what_stays(struct oom *oom) {
    const struct vramgc_job *before = NULL, *with = NULL;
    for (size_t i = 0; i < oom->record->job_count; i++) {
        const struct vramgc_job *job = oom->record->jobs[i];
        if (job_is_over(job, oom->refusal->device, oom->refusal->time_ns))
            before = job;
        else if (job->device == oom->refusal->device && job->time_ns <= oom->refusal->time_ns)
            with = job;
    }
    const struct vramgc_who *then = before ? who_when(oom->device, before) : NULL;
    if (then && with) {
        uint64_t more = minus_u64(with->live_bytes, before->live_bytes);
        oom->left = most_more(oom, then, who_when(oom->device, with), more);
        oom->left.bytes = more; /* of all */
    }
    if (before)
        find_stale(oom, before);
}

struct oom oom_of(const struct stats_file *record, const struct vramgc_refusal *refusal) {
    uint32_t index = refusal->device < VRAMGC_MAX_DEVICES ? refusal->device : 0;
    const char *library = library_name(record->file, refusal->library);
    struct oom oom = {
        .record = record, .refusal = refusal, .device = &record->file->devices[index]};
    add_up(&oom);
    oom.seen = cause_seen(refusal);
    oom.kept_bytes = min_u64(refusal->kept_bytes, oom.sum.idle_bytes);
    oom.growth = growth_until(record, oom.device, refusal->turns, refusal->time_ns);
    oom.lacking_bytes = /* memory that is kept for a step serves its tensors */
        minus_u64(refusal->request_bytes,
                  refusal->free_bytes + refusal->idle_bytes + refusal->step_bytes);
    oom.first_error = first_error(&oom);
    oom.stayed_bytes = stayed_bytes(&oom);
    oom.row = growers_row(record->file, oom.device, refusal);
    oom.pile =
        oom.row && oom.row->bytes > oom.device->owners_at_oom.live_bytes / 2 ? oom.row : NULL;
    oom.load = load_at(record, oom.device, refusal, &oom.earlier_bytes);
    oom.optimizer = optimizer_fills(&oom);
    if (oom.earlier_bytes < least_to_tell(&oom))
        oom.earlier_bytes = 0;
    find_failed(&oom);
    find_what_stays(&oom);
    oom.of_aimdo = library && library_is_aimdo(library);
    oom.of_context = of_hook(&oom, "PrimaryCtx");
    oom.of_cuda = of_hook(&oom, "cudaGetErrorString");
    oom.cause = find_cause(&oom);
    oom.of_pytorch = refusal->reported || oom.cause == VRAMGC_CAUSE_HOST || of_pool(&oom) ||
                     oom.device->stats.block_allocs == 0;
    find_search(&oom);
    return oom;
}

/* It took memory again after what the error let go, was refused some, or began a job. */
static bool worked_after(const struct oom *oom) {
    const struct stats_file *record = oom->record;
    uint64_t then_ns = oom->refusal->time_ns;
    bool worked = oom->cause != VRAMGC_CAUSE_HOST && /* which knows no turns */
                  oom->device->floors.turns > oom->refusal->turns;
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
