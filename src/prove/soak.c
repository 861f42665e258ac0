/* soak.c: the page engine itself (vm/vm.h), the very code that users run, moves pages as fast as it
 * can beside running work on several streams, on a card that a ballast has made small. What is
 * written must be what is read. It must call the engine as the room `serve` does: memory is asked
 * for before a block is used, and given up while work on it is still queued; it asks the GPU before
 * a capture and not during it. */
#include "prove/check.h"
#include "vm/vm.h"

#include <pthread.h>

/* ---- captures beside it: a stream is captured while pages move, in each mode in turn, and its
 * graph replayed after pages have moved around what it uses. Blocks that are live or come meanwhile
 * stay until their segment ends, for the graph may use them ---- */

/* More pages move around a graph than its blocks have, so that theirs would be among them. */
enum { MODES = 3, REPLAYS = 6, MOVED_PAGES = 16 };

/* The host waits so long for pages to move; while a stream is captured only those can with which
 * the GPU is known to have finished. The simulated device moves 100 pages in a millisecond; a card
 * that is a hundred times slower still passes. */
#define CAPTURED_NS (5 * MILLISECOND_NS)
#define BETWEEN_NS  (100 * MILLISECOND_NS)
#define GIVE_UP_NS  (60 * SECOND_NS)

/* The blocks of a graph: one that is there before, one that comes and goes in the capture, and one
 * that stays. */
enum { BEFORE, INSIDE, AFTER, USED };

struct captured {
    uint64_t at;
    size_t block_bytes;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    uint32_t seed;
    bool live[USED];
};

static struct {
    struct vm *vm;
    atomic_bool capturing, running;
    const char *failed;
    CUresult answer;
    uint64_t graphs[MODES], replays; /* those around which pages moved */
} captures;

static bool graphs_capturing(void) {
    return atomic_load(&captures.capturing);
}

static bool graphs_begin(void) {
    atomic_store(&captures.running, true);
    return cu.cuGraphInstantiateWithFlags != NULL; /* driver 11.4 */
}

static bool graph_fails(const char *what, CUresult answer) {
    if (!captures.failed) {
        captures.failed = what;
        captures.answer = answer;
    }
    return false;
}

static bool graph_works(const char *what, CUresult answer) {
    return answer == CUDA_SUCCESS || graph_fails(what, answer);
}

static uint64_t moves_so_far(void) {
    struct vm_figures figures = vm_figures(captures.vm);
    return figures.maps + figures.unmaps;
}

/* False: too few pages moved in that time. */
static bool await_moves(uint64_t most_ns) {
    uint64_t before = moves_so_far(), end_ns = clock_ns() + most_ns;
    while (moves_so_far() < before + MOVED_PAGES && clock_ns() < end_ns)
        sleep_ns(MILLISECOND_NS / 20);
    return moves_so_far() >= before + MOVED_PAGES;
}

/* --- one graph --- */

static uint64_t captured_at(const struct captured *one, size_t block) {
    return one->at + block * one->block_bytes;
}

/* False: the card is full just now. */
static bool take_block(struct captured *one, size_t block) {
    one->live[block] =
        vm_commit(captures.vm, captured_at(one, block), one->block_bytes, graphs_capturing());
    return one->live[block];
}

static void give_captured(struct captured *one, size_t block) {
    if (one->live[block])
        vm_mark_idle(captures.vm, captured_at(one, block), one->block_bytes);
    one->live[block] = false;
}

static bool write_captured(const struct captured *one, size_t block) {
    return graph_works("writing", pattern_write(one->stream, captured_at(one, block),
                                                one->block_bytes, one->seed + (uint32_t)block));
}

static bool check_captured(const struct captured *one, size_t block) {
    return graph_works("reading", pattern_check(one->stream, captured_at(one, block),
                                                one->block_bytes, one->seed + (uint32_t)block));
}

/* The captured work; the last page of a block is the first of the next. */
static bool use_blocks(struct captured *one, bool *moves) {
    if (!take_block(one, INSIDE))
        return true;
    if (!write_captured(one, INSIDE) || !check_captured(one, INSIDE))
        return false;
    give_captured(one, INSIDE);
    *moves = await_moves(CAPTURED_NS);
    if (!take_block(one, AFTER))
        return true;
    return write_captured(one, AFTER) && check_captured(one, AFTER) && check_captured(one, BEFORE);
}

static bool capture_one(struct captured *one, unsigned mode) {
    bool moves = false;
    vm_capture_prepare(captures.vm);
    atomic_store(&captures.capturing, true);
    vm_capture_begin();
    vm_pin_live(captures.vm);
    bool begun = graph_works("cuStreamBeginCapture",
                             cu.cuStreamBeginCapture_v2(one->stream, (CUstreamCaptureMode)mode));
    bool performed = begun && use_blocks(one, &moves);
    if (begun)
        begun = graph_works("cuStreamEndCapture", cu.cuStreamEndCapture(one->stream, &one->graph));
    atomic_store(&captures.capturing, false);
    captures.graphs[mode] += begun && one->live[AFTER] && moves;
    return begun && performed;
}

static bool replay_captured(struct captured *one) {
    bool good = graph_works("cuGraphInstantiate",
                            cu.cuGraphInstantiateWithFlags(&one->exec, one->graph, 0));
    for (size_t i = 0; i < REPLAYS && good; i++) {
        bool moves = await_moves(BETWEEN_NS);
        good = graph_works("cuGraphLaunch", cu.cuGraphLaunch(one->exec, one->stream)) &&
               check_captured(one, AFTER) &&
               graph_works("cuStreamSynchronize", cu.cuStreamSynchronize(one->stream));
        captures.replays += good && moves;
    }
    return good;
}

static void end_captured(struct captured *one) {
    if (one->exec)
        graph_works("cuGraphExecDestroy", cu.cuGraphExecDestroy(one->exec));
    if (one->graph)
        graph_works("cuGraphDestroy", cu.cuGraphDestroy(one->graph));
    for (size_t i = 0; i < USED; i++)
        give_captured(one, i);
    if (one->at && !vm_unreserve(captures.vm, one->at))
        graph_fails("the engine does not know its segment", CUDA_SUCCESS);
}

/* Where nothing can be had the card is full just now, or has failed. */
static void look_at_card(CUstream stream) {
    CUresult answer = cu.cuStreamQuery(stream);
    if (answer != CUDA_ERROR_NOT_READY)
        graph_works("cuStreamQuery", answer);
}

/* Blocks of one page and a half. */
static void make_captured(CUstream stream, unsigned number) {
    struct captured one = {
        .block_bytes = PAGE_BYTES + PAGE_BYTES / 2,
        .stream = stream,
        .seed = number << 8,
    };
    size_t bytes = (USED * one.block_bytes / PAGE_BYTES + 1) * PAGE_BYTES;
    one.at = vm_reserve(captures.vm, bytes, (uint64_t)(uintptr_t)stream);
    bool possible = one.at && take_block(&one, BEFORE) && write_captured(&one, BEFORE);
    if (possible && capture_one(&one, number % MODES) && one.live[AFTER])
        replay_captured(&one);
    end_captured(&one);
    if (!possible)
        look_at_card(stream);
    sleep_ns(MILLISECOND_NS); /* the others have their turn */
}

/* --- all of them --- */

static bool graphs_are_enough(void) {
    bool each = captures.replays > 0;
    for (size_t i = 0; i < MODES; i++)
        each = each && captures.graphs[i] > 0;
    return each;
}

static void graphs_run(struct vm *vm, uint64_t end_ns) {
    CUstream stream = NULL;
    captures.vm = vm;
    graph_works("a thread's cuCtxSetCurrent", driver_bind());
    graph_works("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned number = 1; !captures.failed && atomic_load(&captures.running); number++) {
        uint64_t now_ns = clock_ns();
        if (now_ns >= end_ns && (graphs_are_enough() || now_ns >= end_ns + GIVE_UP_NS))
            break;
        make_captured(stream, number);
    }
    atomic_store(&captures.running, false);
}

static enum outcome graphs_judge(struct text *said) {
    EXPECT(!captures.failed, "; %s answered %s", captures.failed,
           driver_error_name(captures.answer));
    EXPECT(graphs_are_enough(), "; pages hardly moved beside captures");
    text_format(said, "; beside it %lu global, %lu thread-local and %lu relaxed captures, ",
                captures.graphs[CU_STREAM_CAPTURE_MODE_GLOBAL],
                captures.graphs[CU_STREAM_CAPTURE_MODE_THREAD_LOCAL],
                captures.graphs[CU_STREAM_CAPTURE_MODE_RELAXED]);
    text_format(said, "%lu replays", captures.replays);
    return CHECK_PASSED;
}

/* ---- the soak ---- */

/* Together they want up to 2.8 GiB, more than run_soak leaves: the card is full again and again. In
 * a second the simulated device moves 100,000 pages; fewer than LEAST_MOVES prove nothing. */
enum { WORKERS = 2, STREAMS = 2, SEGMENTS = 10, BLOCKS = 6, LEAST_MOVES = 100 };

enum kind { AT_THRESHOLD, LOWVRAM, CAPTURES };

struct segment {
    uint64_t at;
    size_t block_bytes;
    CUstream stream;
    uint32_t seeds[BLOCKS]; /* what a block holds; 0: it is free */
};

struct worker {
    pthread_t thread;
    unsigned random;
    uint32_t seed;
    CUstream streams[STREAMS];
    struct segment segments[SEGMENTS];
    const char *failed;
    uint64_t blocks, full;
};

static struct {
    struct vm *vm;
    size_t room; /* all that there is, where a desktop is spared; 0: up to the card's own end */
    uint64_t end_ns;
    atomic_bool over;
    struct worker workers[WORKERS];
} soak;

static unsigned below(struct worker *worker, unsigned bound) {
    worker->random = worker->random * 1103515245 + 12345;
    return (worker->random >> 8) % bound;
}

/* As a driver that is full: others have taken all but so much. */
static CUresult leave_free(size_t room) {
    CUmemAllocationProp properties = place_properties();
    size_t free_bytes = 0, total, step = (size_t)1 << 30;
    CUresult result = cu.cuMemGetInfo_v2(&free_bytes, &total);
    while (result == CUDA_SUCCESS && free_bytes > room && step >= PAGE_BYTES) {
        CUmemGenericAllocationHandle handle;
        if (free_bytes - room < step || cu.cuMemCreate(&handle, step, &properties, 0))
            step /= 2;
        else
            result = cu.cuMemGetInfo_v2(&free_bytes, &total);
    }
    return result;
}

/* --- one worker --- */

static bool worker_fails(struct worker *worker, const char *why) {
    worker->failed = why;
    atomic_store(&captures.running, false);
    return false;
}

static void free_block(struct worker *worker, struct segment *segment, size_t index) {
    uint64_t at = segment->at + index * segment->block_bytes;
    if (!segment->seeds[index])
        return;
    if (pattern_check(segment->stream, at, segment->block_bytes, segment->seeds[index]) !=
        CUDA_SUCCESS)
        worker_fails(worker, "a kernel could not run");
    vm_mark_idle(soak.vm, at, segment->block_bytes);
    segment->seeds[index] = 0;
}

static void free_segment(struct worker *worker, struct segment *segment) {
    for (size_t i = 0; i < BLOCKS; i++)
        free_block(worker, segment, i);
    if (segment->at && !vm_unreserve(soak.vm, segment->at))
        worker_fails(worker, "the engine does not know its segment");
    segment->at = 0;
}

/* From 1 to 12 pages a block, not all of them at a border of pages. */
static bool new_segment(struct worker *worker, struct segment *segment) {
    size_t pages = 1 + below(worker, 12);
    segment->block_bytes = pages * PAGE_BYTES - (below(worker, 2) ? PAGE_BYTES / 2 : 0);
    size_t bytes = (BLOCKS * segment->block_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    segment->stream = worker->streams[below(worker, STREAMS)];
    segment->at = vm_reserve(soak.vm, bytes, (uint64_t)(uintptr_t)segment->stream);
    return segment->at != 0;
}

static bool new_block(struct worker *worker, struct segment *segment, size_t index) {
    uint64_t at = segment->at + index * segment->block_bytes;
    uint32_t seed = worker->seed += 2;
    bool no_room = soak.room && /* before the card has none */
                   vm_figures(soak.vm).physical_bytes + segment->block_bytes > soak.room;
    if (no_room || !vm_commit(soak.vm, at, segment->block_bytes, graphs_capturing())) {
        worker->full++;
        return false;
    }
    segment->seeds[index] = seed;
    worker->blocks++;
    return pattern_write(segment->stream, at, segment->block_bytes, seed) == CUDA_SUCCESS ||
           worker_fails(worker, "a kernel could not run");
}

static void give_way(struct worker *worker) {
    free_segment(worker, &worker->segments[below(worker, SEGMENTS)]);
}

static void worker_step(struct worker *worker) {
    struct segment *segment = &worker->segments[below(worker, SEGMENTS)];
    size_t index = below(worker, BLOCKS);
    if (!segment->at && !new_segment(worker, segment))
        give_way(worker);
    else if (segment->seeds[index])
        free_block(worker, segment, index);
    else if (!new_block(worker, segment, index))
        give_way(worker);
    else if (below(worker, 40) == 0)
        free_segment(worker, segment);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    if (driver_bind() != CUDA_SUCCESS)
        worker_fails(worker, "a thread could not use the device");
    while (!worker->failed && (clock_ns() < soak.end_ns || atomic_load(&captures.running)))
        worker_step(worker);
    for (size_t i = 0; i < SEGMENTS; i++)
        free_segment(worker, &worker->segments[i]);
    return NULL;
}

/* As the library's own thread does, but without a pause. */
static void *move_pages(void *lowvram) {
    struct decay_limits limits = {.kept_bytes = UINT64_MAX};
    driver_bind();
    while (!atomic_load(&soak.over)) {
        if (lowvram)
            vm_decay(soak.vm, &limits, clock_ns());
        else
            vm_reclaim(soak.vm, 32 * MEBIBYTE, VM_POLL);
        sleep_ns(MILLISECOND_NS / 10);
    }
    return NULL;
}

static void *capture_graphs(void *argument) {
    (void)argument;
    graphs_run(soak.vm, soak.end_ns);
    return NULL;
}

/* --- all of them --- */

static CUresult open_worker(struct worker *worker, unsigned index) {
    worker->random = 7 * index + 1;
    worker->seed = index + 1;
    for (size_t i = 0; i < STREAMS; i++)
        TRY(cu.cuStreamCreate(&worker->streams[i], CU_STREAM_NON_BLOCKING));
    return CUDA_SUCCESS;
}

static bool run_threads(enum kind kind) {
    static const unsigned seconds[] = {[FORM_QUICK] = 1, [FORM_USUAL] = 8, [FORM_FULL] = 45};
    pthread_t mover, capturer;
    bool captures = kind == CAPTURES;
    soak.end_ns = clock_ns() + seconds[check_form] * SECOND_NS;
    bool started = pthread_create(&mover, NULL, move_pages, kind == LOWVRAM ? &soak : NULL) == 0 &&
                   (!captures || pthread_create(&capturer, NULL, capture_graphs, NULL) == 0);
    for (size_t i = 0; i < WORKERS && started; i++)
        started = pthread_create(&soak.workers[i].thread, NULL, work, &soak.workers[i]) == 0;
    for (size_t i = 0; i < WORKERS && started; i++)
        pthread_join(soak.workers[i].thread, NULL);
    if (started && captures)
        pthread_join(capturer, NULL);
    atomic_store(&soak.over, true);
    if (started)
        pthread_join(mover, NULL);
    return started;
}

static enum outcome judge_soak(struct text *said) {
    struct vm_figures figures = vm_figures(soak.vm);
    uint64_t blocks = 0, full = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        EXPECT(!soak.workers[i].failed, "%s", soak.workers[i].failed);
        blocks += soak.workers[i].blocks;
        full += soak.workers[i].full;
    }
    PASS(check_patterns(said));
    EXPECT(figures.maps >= LEAST_MOVES && figures.unmaps >= LEAST_MOVES,
           "pages hardly moved: %lu mapped, %lu unmapped", figures.maps, figures.unmaps);
    text_format(said, "%lu blocks, %lu pages mapped, %lu unmapped, the card full %lu times", blocks,
                figures.maps, figures.unmaps, full);
    return CHECK_PASSED;
}

static enum outcome run_soak(struct text *said, enum kind kind) {
    static const size_t rooms_mib[] = {[FORM_QUICK] = 256, [FORM_USUAL] = 512, [FORM_FULL] = 2048};
    size_t room = rooms_mib[driver_is_simulated() ? FORM_QUICK : check_form] * MEBIBYTE;
    enum { THRESHOLD_PERCENT = 80 }; /* as users have it */
    enum { AT_ONCE_MIB = 64 };       /* more than what all workers may have passed is_full with */
    soak.room = check_spare_bytes ? room : 0;
    WORKS("making the card small",
          leave_free(check_spare_bytes ? room + check_spare_bytes + AT_ONCE_MIB * MEBIBYTE : room));
    for (unsigned i = 0; i < WORKERS; i++)
        WORKS("cuStreamCreate", open_worker(&soak.workers[i], i));
    soak.vm = vm_open((unsigned)driver_device(), graphs_capturing,
                      kind == LOWVRAM ? 0 : THRESHOLD_PERCENT);
    EXPECT(soak.vm, "the engine's own trial failed");
    EXPECT(run_threads(kind), "threads could not be started");
    return judge_soak(said);
}

enum outcome check_soak(struct text *said) {
    return run_soak(said, AT_THRESHOLD);
}

enum outcome check_soak_lowvram(struct text *said) {
    return run_soak(said, LOWVRAM);
}

enum outcome check_soak_captures(struct text *said) {
    if (!graphs_begin()) {
        text_add(said, "the driver has no cuGraphInstantiateWithFlags");
        return CHECK_SKIPPED;
    }
    PASS(run_soak(said, CAPTURES));
    return graphs_judge(said);
}
