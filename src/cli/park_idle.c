/* park_idle.c: see park_idle.h. A program that asks what the card has free asks for nothing: web
 * UIs do so all the time. */
#include "cli/park_idle.h"

#include "base/base.h"
#include "cli/live_file.h"
#include "cli/park.h"
#include "prove/park_driver.h"
#include "read/complain.h"
#include "read/stats_file.h"

#include <string.h>

enum { MOST_PROGRAMS = 64 };

/* A wake begins within this time after the call that waits for it. */
#define PARKED_STEP_NS (5 * MILLISECOND_NS)
/* How soon the card is looked at again where it has no room. */
#define AGAIN_NS (SECOND_NS / 4)

struct program {
    const char *path;
    struct vramgc_file *file;
    uint64_t calls, since_ns; /* what it had asked for by then */
    uint64_t again_ns;        /* parked, and it wants to come back: not before */
    bool parked, refused;     /* refused: not tried again before it works */
};

static struct {
    uint64_t rest_ns;
    bool opened;
    size_t count;
    struct program list[MOST_PROGRAMS];
} self;

void park_idle_begin(uint64_t rest_ns) {
    self.rest_ns = rest_ns;
}

static bool asks_only(const char *call) {
    return strcmp(call, "cudaMemGetInfo") == 0 || strcmp(call, "cuMemGetInfo_v2") == 0;
}

/* Counted before the driver is called. */
static uint64_t calls_of(const struct vramgc_file *file) {
    uint64_t calls = 0;
    for (uint64_t i = 0; i < file->hook_count && i < VRAMGC_MAX_HOOKS; i++)
        if (!asks_only(file->hooks[i].name))
            calls += __atomic_load_n(&file->hooks[i].calls, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < file->device_count && i < VRAMGC_MAX_DEVICES; i++)
        calls += __atomic_load_n(&file->devices[i].stats.block_allocs, __ATOMIC_RELAXED) +
                 __atomic_load_n(&file->devices[i].stats.block_frees, __ATOMIC_RELAXED);
    return calls;
}

/* A driver that fails would take a program with it that nobody looks after. */
static const char *objection(void) {
    const char *missing = park_driver_open();
    enum park_proof proof = missing ? PARK_UNTRIED : park_proof();
    return missing                ? missing
           : proof == PARK_PROVEN ? NULL
           : proof == PARK_REFUTED
               ? "`vramgc prove` found that this driver does not park"
               : "this driver has not been tried: `vramgc prove` does, a minute";
}

static void open_driver(void) {
    const char *why = objection();
    if (why) {
        complain("VRAMGC_PARK: nothing is parked: %s", why);
        self.rest_ns = 0;
    }
    self.opened = true;
}

static void rests(struct program *program, uint64_t now) {
    if (program->refused || now - program->since_ns < self.rest_ns)
        return;
    program->parked = park_state_of(program->file->pid) == PARK_RUNS &&
                      park_process(program->file->pid, PARK_KNOWN);
    program->refused = !program->parked;
}

static void wants_back(struct program *program, uint64_t now) {
    if (now < program->again_ns)
        return;
    bool first = program->again_ns == 0;
    program->parked = park_state_of(program->file->pid) == PARK_PARKED &&
                      !wake_process(program->file->pid, first ? PARK_KNOWN : PARK_QUIET);
    program->again_ns = program->parked ? now + AGAIN_NS : 0;
}

static struct program *program_at(const char *path) {
    for (size_t i = 0; i < self.count; i++)
        if (self.list[i].path == path)
            return &self.list[i];
    struct vramgc_file *file = self.count < MOST_PROGRAMS ? live_file_map(path) : NULL;
    if (!file)
        return NULL;
    self.list[self.count] = (struct program){.path = path, .file = file, .since_ns = clock_ns()};
    return &self.list[self.count++];
}

void park_idle_look(const char *path) {
    if (self.rest_ns && !self.opened)
        open_driver();
    struct program *program = self.rest_ns ? program_at(path) : NULL;
    if (!program)
        return;
    uint64_t now = clock_ns(), calls = calls_of(program->file);
    bool works = calls != program->calls;
    if (program->parked) {
        if (works || __atomic_load_n(&program->file->asking, __ATOMIC_SEQ_CST))
            wants_back(program, now);
        return;
    }
    if (works) {
        program->calls = calls;
        program->since_ns = now;
        program->refused = false;
    }
    rests(program, now);
}

static bool is_alive(const struct vramgc_file *file) {
    return process_lives(file->pid, file->process_start);
}

void park_idle_end(void) {
    for (size_t i = 0; i < self.count; i++)
        if (self.list[i].parked && is_alive(self.list[i].file))
            wake_process(self.list[i].file->pid, PARK_KNOWN);
}

uint64_t park_idle_step_ns(uint64_t step_ns) {
    for (size_t i = 0; i < self.count; i++)
        if (self.list[i].parked && is_alive(self.list[i].file))
            return PARKED_STEP_NS;
    return self.rest_ns ? min_u64(step_ns, max_u64(self.rest_ns / 4, PARKED_STEP_NS)) : step_ns;
}
