/* park_idle.c: see park_idle.h. A program that asks what the card has free asks for nothing: web
 * UIs do so all the time. */
#include "cli/park_idle.h"

#include "base/base.h"
#include "base/peer_file.h"
#include "cli/live_file.h"
#include "cli/park.h"
#include "prove/park_driver.h"
#include "read/complain.h"
#include "read/stats_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A wake begins within this time after the call that waits for it. */
#define PARKED_STEP_NS (5 * MILLISECOND_NS)
/* How soon the card is looked at again where it has no room. */
#define AGAIN_NS (SECOND_NS / 4)
/* A question (ASK of hooks.def) takes no time: where one is not answered for so many of our looks
 * (0.1 s) a thread stands in the driver, and is none that was just not given a processor. Looks,
 * for a container that has used up its time is stopped with us and all. */
enum { STANDS_LOOKS = 20 };
/* One that another program asks for leaves once it has rested so long: a job has ended by then
 * (SLOW_AFTER_NS of govern/background_thread.c). */
#define ASKED_NS (2 * SECOND_NS)

struct program {
    struct program *next;
    const char *path;
    struct vramgc_file *file;
    uint64_t calls, since_ns; /* what it had asked for by then */
    uint64_t asking;          /* as it was then, in the file */
    unsigned unanswered;      /* looks since then */
    uint64_t again_ns;        /* parked, and it wants to come back: not before */
    uint64_t yields_ns;       /* since then it could, and leaves the room to another */
    struct peer_slot *slot;   /* NULL: it asks nobody and is not asked */
    bool parked, refused;     /* refused: not tried again before it works */
};

static struct {
    uint64_t rest_ns, parker; /* we are */
    bool opened;
    struct program *list;
} self;

void park_idle_begin(uint64_t rest_ns) {
    self.rest_ns = rest_ns;
    self.parker = process_key((uint64_t)getpid());
}

static bool asks_only(const char *call) {
    return strcmp(call, "cudaMemGetInfo") == 0 || strcmp(call, "cuMemGetInfo_v2") == 0;
}

/* Counted before the driver has the call; `entered` from our first look on. */
static uint64_t calls_of(const struct vramgc_file *file) {
    uint64_t calls = __atomic_load_n(&file->entered, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i < file->hook_count && i < VRAMGC_MAX_HOOKS; i++)
        if (!asks_only(file->hooks[i].name))
            calls += __atomic_load_n(&file->hooks[i].calls, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < file->device_count && i < VRAMGC_MAX_DEVICES; i++)
        calls += __atomic_load_n(&file->devices[i].stats.block_allocs, __ATOMIC_RELAXED) +
                 __atomic_load_n(&file->devices[i].stats.block_frees, __ATOMIC_RELAXED);
    return calls;
}

static void open_driver(void) {
    const char *missing = park_driver_open(),
               *why = missing ? missing : park_objection(park_proof());
    if (why) {
        complain("VRAMGC_PARK: nothing is parked: %s", why);
        self.rest_ns = 0;
    }
    self.opened = true;
}

static struct peer_slot *slot_of_program(uint64_t pid) {
    for (size_t i = 0; peer_file_look() && i < PEERS_SLOTS; i++)
        if (peer_file_pid(peer_file_slot(i)) == pid && peer_file_lives(peer_file_slot(i)))
            return peer_file_slot(i);
    return NULL;
}

/* It still asks, or is just taking what it asked for. */
static bool has_turn(uint64_t pid, uint64_t now) {
    const struct peer_slot *slot = pid ? slot_of_program(pid) : NULL;
    return slot && now < atomic_load(&slot->turn_ns);
}

/* Tells others since when they may ask for it to be parked, or that they may not. Returns who does.
 */
static uint64_t tell_others(struct program *program, uint64_t now) {
    uint64_t pid = program->file->pid;
    if (!program->slot || peer_file_pid(program->slot) != pid)
        program->slot = slot_of_program(pid);
    if (!program->slot)
        return 0;
    atomic_store(&program->slot->parker, self.parker);
    bool stays = program->parked || program->refused, rests = now - program->since_ns >= ASKED_NS;
    atomic_store(&program->slot->rests_since_ns, stays   ? PEER_STAYS
                                                 : rests ? program->since_ns
                                                         : PEER_WORKS);
    uint64_t asker = atomic_load(&program->slot->park_for);
    if (asker && !has_turn(asker, now)) /* it has given up */
        atomic_store(&program->slot->park_for, asker = 0);
    return rests && !stays ? asker : 0;
}

static void asked_no_more(struct program *program) {
    if (program->slot)
        atomic_store(&program->slot->park_for, 0);
}

static void rests(struct program *program, uint64_t now) {
    uint64_t asker = tell_others(program, now);
    if (program->refused || (!asker && now - program->since_ns < self.rest_ns))
        return;
    program->parked = park_state_of(program->file->pid) == PARK_RUNS &&
                      park_process(program->file->pid, PARK_KNOWN, asker);
    program->refused = !program->parked;
    tell_others(program, now);
    asked_no_more(program);
}

/* One that is on the card has asked for room first, and would run out of memory without. */
static bool another_is_next(const struct program *program, uint64_t now) {
    for (size_t i = 0; peer_file_look() && i < PEERS_SLOTS; i++) {
        const struct peer_slot *slot = peer_file_slot(i);
        if (slot != program->slot && now < atomic_load(&slot->turn_ns) && peer_file_lives(slot) &&
            park_state_of(peer_file_pid(slot)) == PARK_RUNS)
            return true;
    }
    return false;
}

/* For as long as the other may take to see that there is room. */
static bool yields(struct program *program, uint64_t now) {
    bool could = another_is_next(program, now) && wake_fits(program->file->pid);
    program->yields_ns = could ? program->yields_ns ? program->yields_ns : now : 0;
    return could && now - program->yields_ns < SECOND_NS;
}

static void wants_back(struct program *program, uint64_t now) {
    if (now < program->again_ns || yields(program, now))
        return;
    bool first = program->again_ns == 0;
    uint64_t pid = program->file->pid;
    enum park_state state = park_state_of(pid); /* LOCKED: the driver failed to let it go on */
    program->parked = (state == PARK_PARKED || state == PARK_LOCKED) &&
                      !wake_process(pid, first ? PARK_KNOWN : PARK_QUIET);
    if (program->parked && program->slot)
        peer_wants_turn(program->slot);
    if (program->parked)
        parked_ask(pid);
    program->again_ns = program->parked ? now + AGAIN_NS : 0;
    program->yields_ns = 0;
    program->since_ns = now;
}

/* Another thread than the one that stands may ask meanwhile: then there are never none. */
static bool stands(struct program *program) {
    uint64_t asking = __atomic_load_n(&program->file->asking, __ATOMIC_SEQ_CST);
    bool answered = (uint32_t)asking == 0 || asking >> 32 != program->asking >> 32;
    program->unanswered = answered ? 0 : program->unanswered + 1;
    program->asking = asking;
    return program->unanswered >= STANDS_LOOKS;
}

/* Where it hangs in the list; or would. */
static struct program **find_program(const char *path) {
    struct program **at = &self.list;
    while (*at && (*at)->path != path)
        at = &(*at)->next;
    return at;
}

static struct program *program_at(const char *path) {
    struct program **at = find_program(path);
    struct vramgc_file *file = *at ? NULL : live_file_map(path);
    if (file && (*at = calloc(1, sizeof **at)))
        **at = (struct program){.path = path, .file = file, .since_ns = clock_ns()};
    else
        live_file_close(file);
    return *at;
}

void park_idle_look(const char *path) {
    if (self.rest_ns && !self.opened)
        open_driver();
    struct program *program = self.rest_ns ? program_at(path) : NULL;
    if (!program)
        return;
    __atomic_store_n(&program->file->parker, self.parker, __ATOMIC_RELAXED);
    uint64_t now = clock_ns(), calls = calls_of(program->file);
    bool works = calls != program->calls, waits = stands(program);
    if (program->parked) {
        if (works || waits)
            wants_back(program, now);
        return;
    }
    if (works) {
        program->calls = calls;
        program->since_ns = now;
        program->refused = false;
        asked_no_more(program);
    }
    rests(program, now);
}

static bool is_alive(const struct vramgc_file *file) {
    return process_lives(file->pid, file->process_start);
}

bool park_idle_lives(const char *path) {
    const struct program *program = *find_program(path);
    return !program || is_alive(program->file);
}

void park_idle_forget(const char *path) {
    struct program **at = find_program(path), *program = *at;
    if (!program)
        return;
    *at = program->next;
    if (program->parked)
        parked_forget(program->file->pid);
    live_file_close(program->file);
    free(program);
}

void park_idle_end(void) {
    for (struct program *program = self.list; program; program = program->next) {
        if (program->slot && peer_file_pid(program->slot) == program->file->pid)
            atomic_store(&program->slot->rests_since_ns, PEER_STAYS);
        if (program->parked && is_alive(program->file))
            wake_process(program->file->pid, PARK_KNOWN);
    }
}

uint64_t park_idle_step_ns(uint64_t step_ns) {
    for (const struct program *program = self.list; program; program = program->next)
        if (program->parked && is_alive(program->file))
            return PARKED_STEP_NS;
    return self.rest_ns ? min_u64(step_ns, max_u64(self.rest_ns / 4, PARKED_STEP_NS)) : step_ns;
}
