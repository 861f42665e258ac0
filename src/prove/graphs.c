/* graphs.c: see graphs.h. It must call the engine as the hooks of a capture do (serve/serve.c): the
 * engine asks the GPU before a capture and not during it. Blocks that are live or come then stay
 * until their segment ends, for the graph may use them. */
#include "prove/graphs.h"

#include "prove/pattern.h"

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
} self;

bool graphs_capturing(void) {
    return atomic_load(&self.capturing);
}

bool graphs_begin(void) {
    atomic_store(&self.running, true);
    return cu.cuGraphInstantiateWithFlags != NULL; /* driver 11.4 */
}

void graphs_stop(void) {
    atomic_store(&self.running, false);
}

bool graphs_over(void) {
    return !atomic_load(&self.running);
}

static bool fails(const char *what, CUresult answer) {
    if (!self.failed) {
        self.failed = what;
        self.answer = answer;
    }
    return false;
}

static bool works(const char *what, CUresult answer) {
    return answer == CUDA_SUCCESS || fails(what, answer);
}

static uint64_t moved(void) {
    struct vm_figures figures = vm_figures(self.vm);
    return figures.maps + figures.unmaps;
}

/* Whether enough pages moved. */
static bool await_moves(uint64_t most_ns) {
    uint64_t before = moved(), end_ns = clock_ns() + most_ns;
    while (moved() < before + MOVED_PAGES && clock_ns() < end_ns)
        sleep_ns(MILLISECOND_NS / 20);
    return moved() >= before + MOVED_PAGES;
}

/* --- one graph --- */

static uint64_t place_of(const struct captured *one, size_t block) {
    return one->at + block * one->block_bytes;
}

/* False: the card is full just now. */
static bool take(struct captured *one, size_t block) {
    one->live[block] =
        vm_commit(self.vm, place_of(one, block), one->block_bytes, graphs_capturing());
    return one->live[block];
}

static void give(struct captured *one, size_t block) {
    if (one->live[block])
        vm_mark_idle(self.vm, place_of(one, block), one->block_bytes);
    one->live[block] = false;
}

static bool write_block(const struct captured *one, size_t block) {
    return works("writing", pattern_write(one->stream, place_of(one, block), one->block_bytes,
                                          one->seed + (uint32_t)block));
}

static bool check_block(const struct captured *one, size_t block) {
    return works("reading", pattern_check(one->stream, place_of(one, block), one->block_bytes,
                                          one->seed + (uint32_t)block));
}

/* The captured work; the last page of a block is the first of the next. */
static bool perform(struct captured *one, bool *moves) {
    if (!take(one, INSIDE))
        return true;
    if (!write_block(one, INSIDE) || !check_block(one, INSIDE))
        return false;
    give(one, INSIDE);
    *moves = await_moves(CAPTURED_NS);
    if (!take(one, AFTER))
        return true;
    return write_block(one, AFTER) && check_block(one, AFTER) && check_block(one, BEFORE);
}

static bool capture(struct captured *one, unsigned mode) {
    bool moves = false;
    vm_capture_prepare(self.vm);
    atomic_store(&self.capturing, true);
    vm_capture_begin();
    vm_pin_live(self.vm);
    bool begun = works("cuStreamBeginCapture",
                       cu.cuStreamBeginCapture_v2(one->stream, (CUstreamCaptureMode)mode));
    bool performed = begun && perform(one, &moves);
    if (begun)
        begun = works("cuStreamEndCapture", cu.cuStreamEndCapture(one->stream, &one->graph));
    atomic_store(&self.capturing, false);
    self.graphs[mode] += begun && one->live[AFTER] && moves;
    return begun && performed;
}

static bool replay(struct captured *one) {
    bool good =
        works("cuGraphInstantiate", cu.cuGraphInstantiateWithFlags(&one->exec, one->graph, 0));
    for (size_t i = 0; i < REPLAYS && good; i++) {
        bool moves = await_moves(BETWEEN_NS);
        good = works("cuGraphLaunch", cu.cuGraphLaunch(one->exec, one->stream)) &&
               check_block(one, AFTER) &&
               works("cuStreamSynchronize", cu.cuStreamSynchronize(one->stream));
        self.replays += good && moves;
    }
    return good;
}

static void end(struct captured *one) {
    if (one->exec)
        works("cuGraphExecDestroy", cu.cuGraphExecDestroy(one->exec));
    if (one->graph)
        works("cuGraphDestroy", cu.cuGraphDestroy(one->graph));
    for (size_t i = 0; i < USED; i++)
        give(one, i);
    if (one->at && !vm_unreserve(self.vm, one->at))
        fails("the engine does not know its segment", CUDA_SUCCESS);
}

/* Where nothing can be had the card is full just now, or has failed. */
static void look_at_card(CUstream stream) {
    CUresult answer = cu.cuStreamQuery(stream);
    if (answer != CUDA_ERROR_NOT_READY)
        works("cuStreamQuery", answer);
}

/* Blocks of one page and a half. */
static void make_one(CUstream stream, unsigned number) {
    struct captured one = {
        .block_bytes = PAGE_BYTES + PAGE_BYTES / 2,
        .stream = stream,
        .seed = number << 8,
    };
    size_t bytes = (USED * one.block_bytes / PAGE_BYTES + 1) * PAGE_BYTES;
    one.at = vm_reserve(self.vm, bytes, (uint64_t)(uintptr_t)stream);
    bool possible = one.at && take(&one, BEFORE) && write_block(&one, BEFORE);
    if (possible && capture(&one, number % MODES) && one.live[AFTER])
        replay(&one);
    end(&one);
    if (!possible)
        look_at_card(stream);
    sleep_ns(MILLISECOND_NS); /* the others have their turn */
}

/* --- all of them --- */

static bool enough(void) {
    bool each = self.replays > 0;
    for (size_t i = 0; i < MODES; i++)
        each = each && self.graphs[i] > 0;
    return each;
}

void graphs_run(struct vm *vm, uint64_t end_ns) {
    CUstream stream = NULL;
    self.vm = vm;
    works("a thread's cuCtxSetCurrent", driver_bind());
    works("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned number = 1; !self.failed && !graphs_over(); number++) {
        uint64_t now_ns = clock_ns();
        if (now_ns >= end_ns && (enough() || now_ns >= end_ns + GIVE_UP_NS))
            break;
        make_one(stream, number);
    }
    graphs_stop();
}

enum outcome graphs_judge(struct text *said) {
    EXPECT(!self.failed, "; %s answered %s", self.failed, driver_error_name(self.answer));
    EXPECT(enough(), "; pages hardly moved beside captures");
    text_format(said, "; beside it %llu global, %llu thread-local and %llu relaxed captures, ",
                (unsigned long long)self.graphs[CU_STREAM_CAPTURE_MODE_GLOBAL],
                (unsigned long long)self.graphs[CU_STREAM_CAPTURE_MODE_THREAD_LOCAL],
                (unsigned long long)self.graphs[CU_STREAM_CAPTURE_MODE_RELAXED]);
    text_format(said, "%llu replays", (unsigned long long)self.replays);
    return CHECK_PASSED;
}
