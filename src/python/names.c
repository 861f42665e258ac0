/* names.c: see names.h. A function is read once, in words; afterwards the frames it was reached by
 * tell it again. It must take no lock for what it knows. */
#include "python/names.h"

#include "base/lock.h"
#include "base/text.h"
#include "cuda/objects.h"
#include "cuda/real.h"
#include "python/frames.h"
#include "python/phases.h"
#include "store/store.h"

#include <string.h>
#include <unistd.h>

/* A pipeline in a web UI has about 100 frames: deeper than VRAMGC_MAX_DEPTH nothing is read. WAYS:
 * more than lead to functions that take memory in a web UI; two that share a place are read again
 * and again, and told all the same. */
enum { WAYS = 4096, PATH_BYTES = 512 };
enum { KEY_SHIFT = NAMES_SITE_BITS + NAMES_CALL_BITS };
_Static_assert(VRAMGC_MAX_SITES < 1 << NAMES_SITE_BITS, "a site and none have to fit");
_Static_assert(VRAMGC_MAX_CALLS < 1 << NAMES_CALL_BITS, "a call and none have to fit");

/* Of the sites so many are left to functions that take memory: those that call them take none. */
enum { KEPT_SITES = VRAMGC_MAX_SITES / 4 };

/* A way to a function: the frames that led there. */
struct way {
    _Atomic uint64_t entry; /* upper bits of its key, and who it is, or 0 */
    _Atomic uint64_t names; /* of the frames, mixed */
};

static struct {
    struct lock lock; /* of who adds a site or a call */
    struct way ways[WAYS];
    _Atomic uint16_t backward[VRAMGC_MAX_SITES]; /* 1 + the site of a site's backward pass, or 0 */
    char root[PATH_BYTES];                       /* where the program was started */
    bool (*records)(void);                       /* c10::GradMode::is_enabled: this thread does */
    uint64_t (*recorded)(void); /* at::sequence_number::peek: of this thread, since it began */
} self;
CHILD_OPENS(self.lock);

atomic_bool names_on;
THREAD_LOCAL int64_t names_left_bytes;

/* Code without a name of its own, as <lambda> and <listcomp>, belongs to the function around it,
 * which is the frame outside. A generator may be run from elsewhere; who runs it takes the memory.
 */
static bool is_nameless(const char *function) {
    return *function == '<' && strcmp(function, "<module>") != 0;
}

/* "a/b/c/d.py" is "c/d.py". */
static const char *last_folders(const char *path) {
    const char *last = strrchr(path, '/');
    const char *before = last ? memrchr(path, '/', (size_t)(last - path)) : NULL;
    return before ? before + 1 : path;
}

/* "UNet.forward" of a method; what is within a function is told without it. */
static void read_long_name(uint64_t code, char *out, size_t capacity) {
    static const char within[] = "<locals>.";
    char name[PATH_BYTES];
    frames_long_name(code, name, sizeof name);
    const char *from = name;
    for (const char *next; (next = strstr(from, within)) != NULL;)
        from = next + sizeof within - 1;
    text_copy(out, capacity, from);
}

/* Into the place of the function that called it, whose phase stays where it has none of its own.
 * False: the code has no name that says anything; some of PyTorch's give a phase to who has none.
 */
static bool read_code(uint64_t code, struct vramgc_site *place) {
    char path[PATH_BYTES], module[PATH_BYTES], function[sizeof place->function];
    frames_name(code, function, sizeof function);
    frames_file(code, path, sizeof path);
    phases_module(path, self.root, module, sizeof module);
    bool says = !is_nameless(function) && !phases_is_machinery(module, function);
    bool may_tell = says || (strncmp(module, "torch.", 6) == 0 && !*place->phase);
    const char *phase = may_tell ? phases_find(module, function) : "";
    if (*phase)
        text_copy(place->phase, sizeof place->phase, phase);
    if (!says)
        return false;
    read_long_name(code, place->function, sizeof place->function);
    text_copy(place->file, sizeof place->file, last_folders(path));
    place->line = frames_line(code);
    return true;
}

/* 1 + the site of a place, old or new; 0: there are `most` of them. The lock is held. */
static uint32_t site_of(const struct vramgc_site *place, uint64_t most) {
    struct vramgc_file *file = store_file();
    uint64_t count = file->site_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct vramgc_site *site = &file->sites[i];
        if (site->line == place->line && strcmp(site->function, place->function) == 0 &&
            strcmp(site->file, place->file) == 0 && strcmp(site->phase, place->phase) == 0)
            return i + 1;
    }
    if (count >= most)
        return 0;
    file->sites[count] = *place;
    __atomic_store_n(&file->site_count, count + 1, __ATOMIC_RELEASE);
    return (uint32_t)count + 1;
}

/* 1 + the call of a site by a caller (1 + its call, 0: nobody), old or new; 0: the table is full.
 * The lock is held. */
static uint32_t call_of(uint32_t caller, uint32_t site) {
    struct vramgc_file *file = store_file();
    uint64_t count = file->call_count;
    for (uint32_t i = 0; i < count; i++)
        if (file->calls[i].caller == caller && file->calls[i].site == site - 1)
            return i + 1;
    if (count == VRAMGC_MAX_CALLS)
        return 0;
    file->calls[count] = (struct vramgc_call){caller, site - 1};
    __atomic_store_n(&file->call_count, count + 1, __ATOMIC_RELEASE);
    return (uint32_t)count + 1;
}

/* Who is at the place, called by `who`. What called a caller that has no room is not known. */
static void site_enter(uint32_t *who, bool *complete, const struct vramgc_site *place,
                       uint64_t most) {
    lock_take(&self.lock);
    uint32_t site = site_of(place, most);
    uint32_t call = site && *complete ? call_of(names_call(*who), site) : 0;
    lock_give(&self.lock);
    *complete = call > 0;
    *who = call << NAMES_SITE_BITS | site;
}

static uint32_t read_stack(uint64_t frame) {
    uint64_t frames[VRAMGC_MAX_DEPTH];
    struct vramgc_site place = {0}, caller;
    uint32_t who = 0;
    bool complete = true;
    int count = 0;
    for (; frame && count < VRAMGC_MAX_DEPTH; frame = frames_outer(frame))
        frames[count++] = frame;
    while (count-- > 0) {
        uint64_t code = frames_code(frames[count]);
        caller = place;
        if (code && read_code(code, &place) && *caller.function)
            site_enter(&who, &complete, &caller, VRAMGC_MAX_SITES - KEPT_SITES);
    }
    if (*place.function)
        site_enter(&who, &complete, &place, VRAMGC_MAX_SITES);
    return who;
}

/* Autograd's own thread has no function. While it works the one that called backward() waits, and
 * no other takes memory as a rule: it goes back through the work of whichever took some last. */
static uint32_t names_backward(void) {
    uint32_t latest = names_latest();
    struct vramgc_site place = store_file()->sites[latest ? latest - 1 : 0];
    if (!latest || !frames_thread())
        return 0;
    if (!atomic_load(&self.backward[latest - 1])) {
        text_copy(place.phase, sizeof place.phase, "backward");
        place.rogues = place.breaks = 0;
        lock_take(&self.lock);
        atomic_store(&self.backward[latest - 1], (uint16_t)site_of(&place, VRAMGC_MAX_SITES));
        lock_give(&self.lock);
    }
    return atomic_load(&self.backward[latest - 1]);
}

uint32_t names_caller(void) {
    uint64_t frame = atomic_load(&names_on) ? frames_innermost() : 0;
    if (!frame)
        return atomic_load(&names_on) ? names_backward() : 0;
    struct frames_trail trail = frames_trail(frame, VRAMGC_MAX_DEPTH);
    uint64_t key = (trail.codes ^ trail.codes >> 32) << KEY_SHIFT;
    struct way *way = &self.ways[key >> KEY_SHIFT & (WAYS - 1)];
    uint64_t entry = atomic_load_explicit(&way->entry, memory_order_acquire);
    if (entry >> KEY_SHIFT != key >> KEY_SHIFT || atomic_load(&way->names) != trail.names) {
        entry = key | read_stack(frame);
        atomic_store(&way->names, trail.names);
        atomic_store_explicit(&way->entry, entry, memory_order_release);
    }
    uint32_t who = entry & ((1 << KEY_SHIFT) - 1);
    if (who)
        figure_set(&store_file()->latest_site, names_site(who));
    return who;
}

/* Of a phase, and of the same; both have a site. */
static bool are_of_one_phase(uint32_t then, uint32_t now) {
    const struct vramgc_site *sites = store_file()->sites;
    const char *phase = sites[names_site(then) - 1].phase;
    return *phase && strcmp(phase, sites[names_site(now) - 1].phase) == 0;
}

bool names_are_of_one(uint32_t then, uint32_t now) {
    const struct vramgc_file *file = store_file();
    uint32_t call = names_call(then), around = call ? file->calls[call - 1].caller : 0;
    if (!call || !names_call(now))
        return true;
    bool within = are_of_one_phase(then, now);
    for (uint32_t at = names_call(now); at && !within; at = file->calls[at - 1].caller)
        within = at == call || at == around;
    return within;
}

bool names_are_tries(uint32_t then, uint32_t now) {
    return names_site(then) && names_site(now) && names_call(then) != names_call(now) &&
           are_of_one_phase(then, now);
}

uint64_t names_place(void) {
    return atomic_load(&names_on) ? frames_place() : 0;
}

uint64_t names_error(void) {
    return atomic_load(&names_on) ? frames_error() : 0;
}

uint32_t names_latest(void) {
    return (uint32_t)figure_get(&store_file()->latest_site);
}

void names_describe(uint32_t site, struct vramgc_action *action) {
    if (!site)
        return;
    const struct vramgc_site *known = &store_file()->sites[site - 1];
    text_copy(action->function, sizeof action->function, known->function);
    text_copy(action->phase, sizeof action->phase, known->phase);
}

/* Of this thread: autograd's count of what it has recorded, and how many blocks ago it rose. */
static THREAD_LOCAL struct { uint64_t recorded, blocks; } autograd;

uint32_t names_of_large_block(void) {
    uint64_t recorded = self.recorded ? self.recorded() : 0;
    autograd.blocks = recorded == autograd.recorded ? autograd.blocks + 1 : 0;
    autograd.recorded = recorded;
    return names_caller();
}

/* A function of autograd's own takes a few blocks; an evaluation behind a training takes many. */
bool names_recorded(void) {
    enum { A_FEW = 8 };
    return atomic_load(&names_on) && self.recorded && self.records() && self.recorded() > 0 &&
           autograd.blocks < A_FEW;
}

void names_begin(void) {
    char path[PATH_BYTES];
    if (objects_path("libc10.so", 0, path, sizeof path))
        *(void **)&self.records = real_in_object(path, "_ZN3c108GradMode10is_enabledEv");
    if (self.records && objects_path("libtorch_cpu.so", 0, path, sizeof path))
        *(void **)&self.recorded = real_in_object(path, "_ZN2at15sequence_number4peekEv");
    if (!getcwd(self.root, sizeof self.root))
        *self.root = 0;
    atomic_store(&names_on, true);
}

void names_end(void) {
    atomic_store(&names_on, false);
}
