/* oom.c: allocations that the driver itself refused: what was free then, why it was refused, and
 * whether the caller asked again and got it. It must not guess: an expandable segment asks for a
 * block page by page, so what such a refusal means is known only when the block has come or not. */
#include "track/oom.h"

#include "base/file.h"
#include "host/memory.h"
#include "python/names.h"
#include "track/block_map.h"
#include "track/callers.h"
#include "track/device.h"
#include "track/event_log.h"
#include "track/free_memory.h"
#include "track/mempool.h"
#include "track/neighbours.h"
#include "track/recorder.h"
#include "track/stream.h"
#include "track/thread.h"

#include <stdlib.h>

atomic_bool oom_runtime_tells;

/* Free and idle bytes together would have been enough: memory was there, but in pieces, or was
 * asked for in such steps that the last did not fit. */
static uint32_t refusal_cause(const struct vramgc_refusal *refusal, uint64_t wanted_bytes,
                              uint64_t step_bytes) {
    uint64_t there_bytes = refusal->free_bytes + refusal->idle_bytes;
    uint64_t steps = (wanted_bytes + step_bytes - 1) / step_bytes;
    if (!wanted_bytes) /* how much it was is not told */
        return VRAMGC_CAUSE_FULL;
    if (!refusal->total_bytes) /* it was never read */
        return VRAMGC_CAUSE_UNKNOWN;
    if (refusal->free_bytes >= steps * step_bytes)
        return VRAMGC_CAUSE_DRIVER;
    if (there_bytes < wanted_bytes)
        return VRAMGC_CAUSE_FULL;
    return there_bytes < steps * step_bytes ? VRAMGC_CAUSE_ROUNDED : VRAMGC_CAUSE_FRAGMENTED;
}

/* Bytes that this process holds without need. */
static uint64_t idle_here(struct device *device) {
    uint64_t idle = device_pages(device) ? 0 : figure_get(&device->out->stats.idle_bytes.current);
    return idle + device_idle_page_bytes(device) +
           __atomic_load_n(&device->pool.idle_bytes, __ATOMIC_RELAXED);
}

/* The pool first: what it keeps is held. During a capture neither is asked. */
static void ask_what_is_free(struct device *device) {
    device_account_pages(device);
    if (!capture_active()) {
        mempool_look(device);
        device_know_memory(device, MEMINFO_ANSWER);
    }
}

/* Mode compact answers as the card would have without us: there PyTorch's cache holds memory, for
 * which nothing is idle here (serve/capacity.h). */
static void note_as_seen(struct device *device) {
    struct vm *vm = device_pages(device);
    if (!vm)
        return;
    thread_state.oom.seen_free_bytes = vm_free_as_reserved(vm, MEMINFO_KNOWN);
    thread_state.oom.seen_idle_bytes = figure_get(&device->out->stats.idle_bytes.current);
}

/* PyTorch has emptied its cache and got what it wanted: where the card had room all the time, the
 * answer was ours. What it had made for the same block went back. */
static void tell_as_seen(struct vramgc_refusal *refusal) {
    const struct thread_oom *oom = &thread_state.oom;
    struct device *device = device_if_ready(refusal->device);
    if (refusal->cause != VRAMGC_CAUSE_DRIVER || !device || !device_pages(device))
        return;
    refusal->free_bytes = oom->seen_free_bytes;
    refusal->idle_bytes = oom->seen_idle_bytes;
    refusal->cause = refusal_cause(refusal, refusal->request_bytes, 1);
}

static struct vramgc_refusal describe_refusal(struct device *device, enum real_id id,
                                              uint64_t bytes) {
    struct vramgc_device_stats *stats = &device->out->stats;
    struct frag_figures figures = device_measure_holes(device, false); /* some programs probe */
    ask_what_is_free(device);
    uint64_t idle = idle_here(device);
    neighbours_wanted(device);
    note_as_seen(device);
    return (struct vramgc_refusal){
        .time_ns = store_age_ns(),
        .request_bytes = bytes,
        .free_bytes = device_free_bytes(device),
        .idle_bytes = idle,
        .holes = figures.free_runs,
        .hole_bytes = figures.free_bytes,
        .largest_hole_bytes = figures.largest_hole_bytes,
        .allocated_bytes = figure_get(&stats->live_bytes.current),
        .reserved_bytes = figure_get(&stats->reserved_bytes.current),
        .held_bytes = figure_get(&stats->held_bytes.current),
        .other_bytes = figure_get(&stats->other_bytes.current),
        .step_bytes = figure_get(&device->step_bytes.current),
        .kept_bytes = device_releasable_bytes(device),
        .total_bytes = atomic_load(&device->memory.total_bytes),
        .limited_bytes = atomic_load(&device->memory.limited_bytes),
        .turns = figure_get(&device->out->floors.turns),
        .device = device_index(device),
        .hook = (uint32_t)id,
        .stack = stack_note(0),
        .site = names_here(),
        .recorded = names_recorded(),
        .thread = (uint32_t)gettid(),
        .library = library_with_most(device),
    };
}

/* The request that was refused before is asked for again, as PyTorch does when it has emptied its
 * cache. It is a retry in PyTorch's books. */
static void pytorch_asks_again(struct device *device) {
    thread_state.oom.state = OOM_ASKED_AGAIN;
    figure_add(&device->out->stats.alloc_retries, 1);
}

/* One request stays one refusal however often it is made: what counts is how it was at last.
 * False: there is none. */
static bool tell_again(const struct vramgc_refusal *now, bool of_page) {
    struct thread_state *thread = &thread_state;
    struct vramgc_refusal *refusal = &thread->oom.refusal;
    if (thread->oom.state != OOM_ASKED_AGAIN || thread->oom.of_page != of_page)
        return false;
    struct vramgc_refusal first = *refusal;
    *refusal = *now;
    refusal->sequence = first.sequence;
    refusal->time_ns = first.time_ns;
    store_refusal_again(refusal);
    return true;
}

static void write_refusal(struct device *device, const struct vramgc_refusal *refusal,
                          bool of_page) {
    struct thread_state *thread = &thread_state;
    if (!tell_again(refusal, of_page)) {
        thread->oom.refusal = *refusal;
        thread->oom.refusal.sequence = store_refusal(refusal);
        thread->oom.of_page = of_page;
        figure_add(&device->out->stats.refusals, 1);
    }
    thread->oom.state = OOM_REFUSED;
    thread->oom.card_read = thread->oom.pool_trimmed = false;
    thread->oom.noted_ns = clock_ns();
    figure_add(&device->out->stats.driver_calls, 1);
    call_failed((enum real_id)refusal->hook);
}

void oom_card_read(void) {
    thread_state.oom.card_read = true;
}

void oom_pool_trimmed(void) {
    struct thread_oom *oom = &thread_state.oom;
    oom->pool_trimmed = oom_is_open() && !oom->of_page && !oom->card_read;
    if (!oom->pool_trimmed) /* the program did, not PyTorch */
        oom->told.sequence = 0;
}

/* PyTorch's books know no retry here. */
static bool pool_asked_again(enum real_id id, uint64_t bytes) {
    const struct thread_oom *oom = &thread_state.oom;
    return oom->pool_trimmed && oom_is_open() && oom->refusal.hook == (uint32_t)id &&
           oom->refusal.request_bytes == bytes;
}

/* Of a line of /proc/self/maps: a loader maps a file of weights whole, and once. */
static uint64_t weights_in(const char *line) {
    static const char *const endings[] = {".safetensors", ".sft", ".gguf"};
    const char *dot = strrchr(line, '.');
    char *next;
    for (size_t i = 0; dot && i < ARRAY_LENGTH(endings); i++)
        if (strcmp(dot, endings[i]) == 0) {
            uint64_t from = strtoull(line, &next, 16), until = strtoull(next + 1, &next, 16);
            bool whole = strtoull(next + strlen(" r--p "), NULL, 16) == 0;
            return whole ? until - from : 0;
        }
    return 0;
}

/* The files that a load reads from. There are thousands of lines, so it is asked for an error only.
 */
static uint64_t mapped_weights(void) {
    char lines[4096];
    size_t length = 0;
    uint64_t bytes = 0;
    int fd = file_open("/proc/self/maps", O_RDONLY, 0);
    for (ssize_t n; fd >= 0 && (n = read(fd, lines + length, sizeof lines - 1 - length)) > 0;) {
        char *line = lines, *end;
        lines[length + (size_t)n] = 0;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            bytes += weights_in(line);
        }
        length = strlen(line);
        memmove(lines, line, length);
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

static void became_error(const struct vramgc_refusal *refusal) {
    struct thread_oom *oom = &thread_state.oom;
    figure_set(&store_file()->weights_bytes, mapped_weights());
    device_list_oom_owners(device_if_ready(refusal->device),
                           oom->told.sequence == refusal->sequence);
    oom->told = *refusal;
    oom->told_ns = clock_ns();
    oom->told_in_python = atomic_load(&names_on);
    oom->told_error = names_error();
    oom->told_place = names_place();
    oom->told_caller = names_caller();
    oom->told_block = thread_state.block;
}

/* The error has ended the function that had the latest block: nothing went on. */
void oom_block_freed(uint64_t address) {
    struct thread_oom *oom = &thread_state.oom;
    if (oom->told_block == address)
        oom->told.sequence = 0;
}

/* The program's Python has caught the error, and is at work in its `except`, or in other work, as
 * a server's on its next request: nothing went on without the memory. Where PyTorch has caught it
 * Python handles what it handled before. */
static bool is_handled(void) {
    const struct thread_oom *oom = &thread_state.oom;
    uint64_t error = names_error();
    return (error && error != oom->told_error) ||
           !names_are_of_one(oom->told_caller, names_caller());
}

/* The end of an error is known: its work goes on, or not. */
static void conclude_told(bool goes_on) {
    struct thread_oom *oom = &thread_state.oom;
    if (goes_on && clock_ns() - oom->told_ns < OOM_AT_ONCE_NS) {
        oom->told.reported = oom->told_in_python ? VRAMGC_WENT_ON : VRAMGC_SEEMS_ON;
        store_refusal_again(&oom->told);
        device_forget_oom_owners(device_if_ready(oom->told.device), false);
        if (oom->told_in_python)
            oom_log_went_on(&oom->told);
    }
    oom->told.sequence = 0;
}

/* Where the runtime tells of caught errors the rest have reached Python: then at most another try
 * went on, as a VAE in tiles, which is not its `except` any more. */
static bool went_on(void) {
    const struct thread_oom *oom = &thread_state.oom;
    if (!oom->told_place || !atomic_load(&oom_runtime_tells))
        return !is_handled();
    return names_are_tries(oom->told_caller, names_caller()) && !is_handled();
}

void oom_asked_anew(void) {
    if (oom_is_told())
        conclude_told(went_on());
}

void oom_worked_on(void) {
    atomic_store(&oom_runtime_tells, true);
    if (oom_is_told() && thread_state.oom.told_place &&
        names_place() == thread_state.oom.told_place)
        conclude_told(true);
}

static void refused_call(struct device *device, enum real_id id, uint64_t bytes,
                         enum vramgc_reported reported) {
    struct thread_oom *oom = &thread_state.oom;
    struct vramgc_refusal refusal = describe_refusal(device, id, bytes);
    refusal.cause = refusal_cause(&refusal, bytes, 1);
    refusal.reported = reported;
    bool last = pool_asked_again(id, bytes);
    if (last)
        oom->state = OOM_ASKED_AGAIN;
    write_refusal(device, &refusal, false);
    if (reported)
        became_error(&oom->refusal);
    if (last) /* an error follows: the next request for as much begins anew */
        oom->state = OOM_NONE;
}

void oom_at_call(enum real_id id, uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (device)
        refused_call(device, id, bytes, VRAMGC_NOT_REPORTED);
}

void oom_at_pool(enum real_id id, uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (!device)
        return;
    if (!pool_asked_again(id, bytes))
        oom_asked_anew();
    refused_call(device, id, bytes, VRAMGC_REPORTED);
}

/* A refusal of just now is known: PyTorch words it, too. */
void oom_at_error(enum real_id id) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (!device || clock_ns() - thread_state.oom.noted_ns < OOM_AT_ONCE_NS)
        return;
    refused_call(device, id, 0, VRAMGC_REPORTED);
    oom_log_note(&thread_state.oom.refusal);
    thread_state.oom.state = OOM_NONE;
}

/* PyTorch takes the error for none of its own, and never gives the block back. */
void oom_at_block(struct device *device, uint64_t bytes) {
    thread_state.since_block.refused = true;
    if (recorder_is_on())
        recorder_note(device, VRAMGC_NOTE_WANTED, bytes);
    struct vramgc_refusal refusal = describe_refusal(device, ID_cuMemCreate, bytes);
    refusal.cause = refusal_cause(&refusal, bytes, 1);
    refusal.reported = VRAMGC_REPORTED;
    refusal.sequence = store_refusal(&refusal);
    became_error(&refusal);
    oom_log_note(&refusal);
    figure_add(&device->out->stats.refusals, 1);
    figure_add(&device->out->stats.ooms, 1);
    figure_add(&device->out->stats.refused_blocks, 1);
    figure_add(&device->out->stats.refused_block_bytes, bytes);
    block_map_at_oom(device, bytes);
}

/* How much it takes, and what is free, the driver tells only with a context. NVML tells who has the
 * card. */
void oom_at_context(unsigned index) {
    struct device *device = device_at(index);
    if (!device)
        return;
    neighbours_wanted(device);
    store_refusal(&(struct vramgc_refusal){
        .time_ns = store_age_ns(),
        .total_bytes = atomic_load(&device->memory.total_bytes),
        .device = index,
        .cause = VRAMGC_CAUSE_FULL,
        .hook = ID_cuDevicePrimaryCtxRetain,
        .reported = VRAMGC_REPORTED,
    });
    thread_state.oom.noted_ns = clock_ns();
    call_failed(ID_cuDevicePrimaryCtxRetain);
}

/* The figures of the host, whose memory it is. It is no refusal of the device's. */
void oom_at_host(enum real_id id, uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (!device)
        return;
    struct host_memory host = host_memory_read();
    struct vramgc_refusal refusal = {
        .time_ns = store_age_ns(),
        .request_bytes = bytes,
        .free_bytes = host.available_bytes,
        .total_bytes = host.total_bytes,
        .held_bytes = figure_get(&device->out->stats.pinned_bytes.current),
        .device = device_index(device),
        .cause = VRAMGC_CAUSE_HOST,
        .hook = (uint32_t)id,
        .stack = stack_note(0),
    };
    store_refusal(&refusal);
    thread_state.oom.noted_ns = clock_ns();
    oom_log_note(&refusal);
    call_failed(id);
}

bool oom_granted(uint64_t bytes) {
    struct thread_state *thread = &thread_state;
    if (!oom_is_open() || thread->oom.of_page)
        return false;
    thread->oom.refusal.granted = thread->oom.refusal.request_bytes == bytes;
    if (thread->oom.refusal.granted) {
        thread->oom.refusal.reported = VRAMGC_NOT_REPORTED;
        thread->oom.told.sequence = 0;
        tell_as_seen(&thread->oom.refusal);
        store_refusal_again(&thread->oom.refusal);
    }
    thread->oom.state = OOM_NONE;
    return thread->oom.refusal.granted;
}

bool oom_segment_asked(struct device *device, uint64_t bytes) {
    const struct vramgc_refusal *refusal = &thread_state.oom.refusal;
    bool again = oom_is_open() && !thread_state.oom.of_page && refusal->hook == ID_cudaMalloc &&
                 refusal->request_bytes == bytes;
    if (UNLIKELY(again))
        pytorch_asks_again(device);
    return again;
}

void oom_page_asked(struct device *device) {
    if (UNLIKELY(oom_page_asked_again() && thread_state.oom.state == OOM_REFUSED))
        pytorch_asks_again(device);
}

/* The pages that were made for the same block before count as free: they go back now. In mode
 * compact there is no memory behind them yet. */
void oom_at_page(uint64_t bytes) {
    struct device *device = recording_is_on() ? device_current() : NULL;
    if (!device)
        return;
    oom_page_asked(device);
    struct vramgc_refusal refusal = describe_refusal(device, ID_cuMemCreate, bytes);
    if (!device_pages(device)) {
        refusal.free_bytes += thread_state.unmapped_handle_bytes;
        refusal.held_bytes = minus_u64(refusal.held_bytes, thread_state.unmapped_handle_bytes);
    }
    write_refusal(device, &refusal, true);
}

/* True: PyTorch's error for so many bytes is what became of this thread's latest refusal: it asks
 * for no less than it wants, and one of other code's may be older. */
static bool is_of_refusal(uint64_t bytes) {
    const struct thread_oom *oom = &thread_state.oom;
    return oom_is_open() && (oom->of_page || oom->refusal.request_bytes >= bytes);
}

void oom_reported(struct device *device, uint64_t bytes) {
    struct vramgc_refusal *refusal = &thread_state.oom.refusal;
    bool asked = is_of_refusal(bytes);
    oom_asked_anew();
    figure_add(&device->out->stats.ooms, 1);
    if (asked) {
        refusal->reported = VRAMGC_REPORTED;
        refusal->site = names_here();
        store_refusal_again(refusal);
    }
    oom_ends(bytes, false);
    if (asked) {
        became_error(refusal);
        oom_log_note(refusal);
        return;
    }
    struct vramgc_refusal of_pytorch = describe_refusal(device, REAL_COUNT, bytes);
    of_pytorch.cause = VRAMGC_CAUSE_LIMIT;
    of_pytorch.reported = VRAMGC_REPORTED;
    of_pytorch.sequence = store_refusal(&of_pytorch);
    became_error(&of_pytorch);
    oom_log_note(&of_pytorch);
}

void oom_ends(uint64_t bytes, bool granted) {
    struct thread_state *thread = &thread_state;
    struct vramgc_refusal *refusal = &thread->oom.refusal;
    if (oom_is_open() && thread->oom.of_page) {
        uint64_t page_bytes = max_u64(refusal->request_bytes, 1);
        refusal->request_bytes = bytes;
        refusal->granted = granted;
        refusal->cause = refusal_cause(refusal, bytes, page_bytes);
        if (granted)
            tell_as_seen(refusal);
        store_refusal_again(refusal);
    }
    thread->oom.state = OOM_NONE;
    thread->oom.of_page = false;
}
