/* names.c: see names.h. A hook must not wait here, but for names_at_oom; it takes no lock and
 * allocates nothing. What cannot be known to be of that moment names nothing. */
#include "govern/names.h"

#include "base/cancel.h"
#include "base/mutant.h"
#include "base/text.h"
#include "govern/own_thread.h"
#include "govern/phases_file.h"
#include "govern/python.h"
#include "govern/wakeup.h"
#include "track/oom.h"
#include "track/process_settings.h"
#include "track/thread.h"

#include <pthread.h>
#include <string.h>

/* More requests than are made while one is answered. (A stress test has fewer.) */
#ifndef NAMES_REQUESTS
#define NAMES_REQUESTS 64
#endif

/* Blocks that wait for one answer, and so many answers by one look. The wait is bounded because
 * PyTorch's allocator may be locked. */
enum { REQUESTS = NAMES_REQUESTS, BLOCKS = 16, BATCH = 8, PATIENCE_NS = 5000000, STEP_NS = 50000 };
#define SLEEP_NS (3600 * SECOND_NS)

/* In the place of a request's number: somebody writes it. */
#define BEING_WRITTEN UINT64_MAX

struct asking_block {
    _Atomic uint64_t address, peaks;
    atomic_uint device;
};

/* Who asked writes all but the answer, which is the thread's that looks. */
struct request {
    _Atomic uint64_t number; /* 0: none */
    _Atomic uint64_t thread, asked_ns;
    _Atomic uint64_t answered_ns; /* 0: not yet */
    atomic_bool asks_error;
    atomic_uint site;       /* the answer: 1 + site, 0: none */
    _Atomic uint64_t error; /* as in struct python_look */
    atomic_uint block_count;
    struct asking_block blocks[BLOCKS];
};

static struct {
    struct request requests[REQUESTS];
    _Atomic uint64_t asked;    /* the latest number */
    _Atomic uint64_t answered; /* all up to this number */
    /* no request before: for a block, at an out-of-memory, after one */
    _Atomic uint64_t next_ns, next_oom_ns, next_after_ns;
    _Atomic uint64_t thread;
    atomic_bool stopping;
    bool begun;
} self;

atomic_bool names_on;
THREAD_LOCAL int64_t names_left_bytes;
THREAD_LOCAL bool names_to_wake;
static THREAD_LOCAL uint64_t my_number; /* of the thread's latest request */

/* The Python exception that the thread handled when it was known last, by address, 0: none; when
 * that was. */
static THREAD_LOCAL uint64_t my_error, my_error_ns;
static THREAD_LOCAL bool my_error_is_new; /* it was asked for at the thread's latest error */

static struct request *place_of(uint64_t number) {
    return &self.requests[number % REQUESTS];
}

/* ---- hooks ---- */

/* The thread's latest request; NULL: none, or its place is another's. */
static struct request *mine(void) {
    struct request *request = place_of(my_number);
    return my_number && atomic_load_explicit(&request->number, memory_order_acquire) == my_number
               ? request
               : NULL;
}

/* The place of a new request; NULL where somebody is at work there. */
static struct request *claim(uint64_t number) {
    struct request *request = place_of(number);
    uint64_t before = atomic_load(&request->number);
    bool claimed = before != BEING_WRITTEN &&
                   atomic_compare_exchange_strong(&request->number, &before, BEING_WRITTEN);
    return claimed ? request : NULL;
}

/* Whether it may be asked again. Blocks and out-of-memory errors do not take it from each other. */
static bool is_due(_Atomic uint64_t *next_ns, uint64_t now) {
    uint64_t due = atomic_load_explicit(next_ns, memory_order_relaxed);
    return now >= due && atomic_compare_exchange_strong(next_ns, &due, now + NAMES_FRESH_NS);
}

/* A new request of this thread, which nobody sees before it is published. */
static struct request *begin(_Atomic uint64_t *next_ns, uint64_t now) {
    if (!is_due(next_ns, now))
        return NULL;
    uint64_t number = atomic_fetch_add(&self.asked, 1) + 1;
    struct request *request = claim(number);
    if (!request)
        return NULL;
    atomic_store(&request->thread, (uint64_t)pthread_self());
    atomic_store(&request->asked_ns, now);
    atomic_store(&request->answered_ns, 0);
    atomic_store(&request->site, 0);
    atomic_store(&request->asks_error, false);
    atomic_store(&request->block_count, 0);
    atomic_store(&self.thread, (uint64_t)pthread_self());
    my_number = number;
    return request;
}

static void publish(struct request *request) {
    atomic_store_explicit(&request->number, my_number, memory_order_release);
}

static uint32_t tag_asked(uint64_t number) {
    return TAG_ASKED | (uint32_t)(number % TAG_ASKED);
}

/* The block waits for the answer, too. */
static uint32_t wait_for(struct request *request, const struct block_event *event) {
    unsigned place = atomic_load(&request->block_count);
    if (place == BLOCKS)
        return 0;
    struct asking_block *block = &request->blocks[place];
    atomic_store(&block->address, event->address);
    atomic_store(&block->peaks, figure_get(&event->device->owners.peaks));
    atomic_store(&block->device, device_index(event->device));
    atomic_store(&request->block_count, place + 1);
    return tag_asked(my_number);
}

/* The thread's name, from an answer that is fresh, unless its place has become another's. */
static uint32_t take_answer(const struct request *request, uint64_t answered_ns) {
    struct thread_name *name = &thread_state.name;
    uint32_t site = atomic_load(&request->site);
    bool is_mine = MUTANT(name_of_another, atomic_load(&request->number) == my_number, true);
    name->site = is_mine ? site : 0;
    name->until_ns = answered_ns + NAMES_FRESH_NS;
    return name->site;
}

uint32_t names_of_block(const struct block_event *event) {
    uint64_t now = clock_ns();
    struct request *request = mine();
    uint64_t answered_ns = request ? atomic_load(&request->answered_ns) : 0;
    if (answered_ns && now - answered_ns < NAMES_FRESH_NS)
        return take_answer(request, answered_ns);
    if (request && !answered_ns && now - atomic_load(&request->asked_ns) < NAMES_FRESH_NS)
        return wait_for(request, event);
    request = begin(&self.next_ns, now);
    if (!request)
        return 0;
    uint32_t tag = wait_for(request, event);
    publish(request);
    MUTANT(named_too_early, (void)(names_to_wake = true), wakeup(WAKEUP_NAMES));
    return tag;
}

void names_wake(void) {
    names_to_wake = false;
    wakeup(WAKEUP_NAMES);
}

uint64_t names_thread(void) {
    return atomic_load(&self.thread);
}

/* In steps: who answers need not know that somebody waits. */
static void await_answer(const struct request *request, uint64_t until_ns) {
    const struct timespec step = {.tv_nsec = STEP_NS};
    uint64_t answered_ns;
    while (!(answered_ns = atomic_load(&request->answered_ns)) && clock_ns() < until_ns)
        nanosleep(&step, NULL);
    if (!answered_ns)
        return;
    my_error = atomic_load(&request->error);
    my_error_ns = answered_ns;
    take_answer(request, answered_ns);
}

/* Where the thread is, and which exception it handles. */
static void ask_now(_Atomic uint64_t *next_ns) {
    int cancel = cancel_disable();
    uint64_t now = clock_ns();
    struct request *request = begin(next_ns, now);
    if (request) {
        atomic_store(&request->asks_error, true);
        publish(request);
        wakeup(WAKEUP_NAMES);
        if (!python_thread_has_gil())
            await_answer(request, now + PATIENCE_NS);
    }
    cancel_restore(cancel);
}

static void list_owners(struct device *device) {
    lock_take(&device->lock);
    owners_list_now(&device->owners, figure_get(&device->out->stats.live_bytes.current),
                    &device->out->owners_at_oom);
    lock_give(&device->lock);
}

void names_at_oom(struct device *device) {
    if (!atomic_load(&names_on))
        return;
    uint64_t before_ns = my_error_ns;
    ask_now(&self.next_oom_ns);
    my_error_is_new = my_error_ns != before_ns;
    list_owners(device);
}

/* Where PyTorch has caught the error, Python handles what it handled before. An answer of before
 * the error is none: the exception of this one may lie where that of another did. */
void names_after_oom(void) {
    uint64_t before = my_error, before_ns = my_error_ns, told_ns = oom_told_ns();
    if (!told_ns || !my_error_is_new || minus_u64(told_ns, before_ns) > NAMES_FRESH_NS ||
        !atomic_load(&names_on))
        return;
    ask_now(&self.next_after_ns);
    if (my_error_ns != before_ns)
        oom_is_handled(MUTANT(handled_goes_on, my_error && my_error != before, false));
}

void names_describe(struct vramgc_action *action) {
    uint32_t site = thread_site();
    if (!site)
        return;
    const struct vramgc_site *known = &store_file()->sites[site - 1];
    text_copy(action->function, sizeof action->function, known->function);
    text_copy(action->phase, sizeof action->phase, known->phase);
}

/* ---- vramgc's thread ---- */

struct pending {
    uint64_t number;
    struct python_place place;
};

/* 1 + the site of a place, old or new; 0: none, or the table is full. For one thread. */
static uint32_t site_of(const struct python_place *place) {
    struct vramgc_file *file = store_file();
    uint64_t count = file->site_count;
    if (!*place->function)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct vramgc_site *site = &file->sites[i];
        if (site->line == place->line && strcmp(site->function, place->function) == 0 &&
            strcmp(site->file, place->file) == 0 && strcmp(site->phase, place->phase) == 0)
            return i + 1;
    }
    if (count == VRAMGC_MAX_SITES)
        return 0;
    struct vramgc_site *site = &file->sites[count];
    text_copy(site->function, sizeof site->function, place->function);
    text_copy(site->file, sizeof site->file, place->file);
    text_copy(site->phase, sizeof site->phase, place->phase);
    site->line = place->line;
    __atomic_store_n(&file->site_count, count + 1, __ATOMIC_RELEASE);
    return (uint32_t)count + 1;
}

static void name_blocks(struct request *request, uint64_t number, uint32_t site) {
    unsigned count = atomic_load(&request->block_count);
    for (unsigned i = 0; i < count && i < BLOCKS; i++) {
        struct asking_block *block = &request->blocks[i];
        struct device *device = device_if_ready(atomic_load(&block->device));
        if (device)
            block_name(device, atomic_load(&block->address), tag_asked(number), site - 1,
                       atomic_load(&block->peaks));
    }
}

/* The place is held meanwhile, so that nobody takes the answer for another request's. One that
 * comes too late for the blocks that wait is as true as any for those to come. */
static void answer(const struct pending *pending, uint64_t error, uint64_t looked_ns) {
    struct request *request = place_of(pending->number);
    uint64_t expected = pending->number;
    if (!atomic_compare_exchange_strong(&request->number, &expected, BEING_WRITTEN))
        return;
    bool late =
        MUTANT(late_name, looked_ns - atomic_load(&request->asked_ns) > NAMES_FRESH_NS, false);
    uint32_t site = site_of(&pending->place);
    if (site && !late)
        name_blocks(request, pending->number, site);
    atomic_store(&request->site, site);
    atomic_store(&request->error, error);
    atomic_store(&request->answered_ns, looked_ns);
    atomic_store_explicit(&request->number, pending->number, memory_order_release);
}

/* What was asked since; all but the newest have waited too long, where there are more. */
static size_t take_pending(struct pending *pending, struct python_look *looks) {
    uint64_t newest = atomic_load(&self.asked), number = atomic_load(&self.answered) + 1;
    size_t count = 0;
    for (number = max_u64(number, minus_u64(newest + 1, BATCH)); number <= newest; number++) {
        struct request *request = place_of(number);
        if (atomic_load_explicit(&request->number, memory_order_acquire) != number)
            continue;
        pending[count] = (struct pending){.number = number};
        looks[count] = (struct python_look){.thread = atomic_load(&request->thread),
                                            .asks_error = atomic_load(&request->asks_error),
                                            .place = &pending[count].place};
        count++;
    }
    atomic_store(&self.answered, newest);
    return count;
}

static void answer_all(void) {
    struct pending pending[BATCH];
    struct python_look looks[BATCH];
    size_t count = take_pending(pending, looks);
    if (count == 0 || !python_look(looks, count))
        return;
    uint64_t looked_ns = clock_ns();
    for (size_t i = 0; i < count; i++)
        answer(&pending[i], looks[i].error, looked_ns);
}

/* Python may end the thread where it waits for the GIL. */
static void thread_ends(void *unused) {
    (void)unused;
    atomic_store(&names_on, false);
    python_thread_ended();
    own_thread_ends();
}

static void *names_thread_main(void *unused) {
    pthread_cleanup_push(thread_ends, NULL);
    python_prepare();
    atomic_store(&names_on, !atomic_load(&self.stopping));
    while (!atomic_load(&self.stopping)) {
        unsigned count = wakeup_count(WAKEUP_NAMES);
        answer_all();
        if (!atomic_load(&self.stopping) && atomic_load(&self.answered) == atomic_load(&self.asked))
            wakeup_sleep(WAKEUP_NAMES, SLEEP_NS, count);
    }
    pthread_cleanup_pop(0);
    atomic_store(&names_on, false);
    own_thread_ends();
    return unused;
}

/* Without the functions that a look needs the thread would have nothing to do. */
void names_begin(void) {
    const char *functions = settings_options()->functions;
    if (self.begun || strcmp(functions, "off") == 0 || !python_can_look())
        return;
    self.begun = true;
    if (strcmp(functions, "auto") != 0)
        phases_file_read(functions);
    own_thread_start(names_thread_main);
}

void names_end(void) {
    atomic_store(&self.stopping, true);
    atomic_store(&names_on, false);
    wakeup(WAKEUP_NAMES);
}
