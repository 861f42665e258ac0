/* names.c: see names.h. A function is read once, in words; afterwards the frames it was reached by
 * tell it again. It must take no lock for what it knows. */
#include "python/names.h"

#include "base/lock.h"
#include "base/mutant.h"
#include "base/text.h"
#include "python/frames.h"
#include "python/phases.h"
#include "store/store.h"

#include <string.h>
#include <unistd.h>

/* Deeper than that nobody is interested in: a pipeline in a web UI has about 100 frames. WAYS: more
 * than lead to functions that take memory in a web UI; two that share a place are read again and
 * again, and told all the same. */
enum { DEPTH_BITS = 8, MOST_FRAMES = 1 << DEPTH_BITS, WAYS = 4096, PATH_BYTES = 512 };
enum { SITE_BITS = 10, KEY_SHIFT = DEPTH_BITS + SITE_BITS };
_Static_assert(VRAMGC_MAX_SITES < 1 << SITE_BITS, "a site and none have to fit");

/* A way to a function: the frames that led there. */
struct way {
    _Atomic uint64_t entry; /* upper bits of its key, how deep the function was, its site or 0 */
    _Atomic uint64_t names; /* of the frames down to it, mixed */
};

static struct {
    struct lock lock; /* of who adds a site */
    struct way ways[WAYS];
    char root[PATH_BYTES]; /* where the program was started */
} self;

atomic_bool names_on;
THREAD_LOCAL int64_t names_left_bytes;

struct place {
    char function[64];
    char file[64]; /* the last two parts of its path */
    char phase[24];
    uint32_t line; /* where the function begins */
    int depth;     /* of its frame */
};

/* What has no name of its own, as <lambda> and <listcomp>, belongs to the function around it, which
 * is the frame outside. A generator may be run from elsewhere; who runs it takes the memory. */
static bool is_nameless(const char *function) {
    return *function == '<' && strcmp(function, "<module>") != 0;
}

/* "a/b/c/d.py" is "c/d.py". */
static const char *end_of(const char *path) {
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

/* Whether the place is complete. */
static bool read_code(uint64_t code, int depth, struct place *place) {
    char path[PATH_BYTES], module[PATH_BYTES], function[sizeof place->function];
    frames_name(code, function, sizeof function);
    frames_file(code, path, sizeof path);
    phases_module(path, self.root, module, sizeof module);
    if (is_nameless(function) || phases_is_machinery(module, function))
        return false;
    if (!*place->function) {
        read_long_name(code, place->function, sizeof place->function);
        text_copy(place->file, sizeof place->file, end_of(path));
        place->line = frames_line(code);
        place->depth = depth;
    }
    if (!*place->phase)
        text_copy(place->phase, sizeof place->phase, phases_find(module, function));
    return *place->function && *place->phase;
}

static void read_place(uint64_t frame, struct place *place) {
    bool complete = false;
    for (int i = 0; frame && i < MOST_FRAMES && !complete; i++, frame = frames_outer(frame)) {
        uint64_t code = frames_code(frame);
        complete = code && read_code(code, i, place);
    }
}

/* 1 + the site of a place, old or new; 0: none, or the table is full. The lock is held. */
static uint32_t site_of(const struct place *place) {
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

/* FNV-1a, by words. */
static uint64_t mix(uint64_t key, uint64_t word) {
    return (key ^ word) * 0x100000001b3;
}

static uint64_t key_of(uint64_t frame) {
    uint64_t key = 0xcbf29ce484222325;
    for (int i = 0; frame && i < MOST_FRAMES; i++, frame = frames_outer(frame))
        key = mix(key, frames_mark(frame));
    return (key ^ key >> 32) << KEY_SHIFT;
}

static uint64_t names_key_of(uint64_t frame, int depth) {
    uint64_t key = 0;
    for (int i = 0; frame && i <= depth; i++, frame = frames_outer(frame)) {
        uint64_t code = frames_code(frame);
        key = mix(key, code ? frames_name_key(code) : 0);
    }
    return key;
}

/* Where a function has gone another one may lie at its address: their names tell them apart. */
static bool is_known(const struct way *way, uint64_t entry, uint64_t key, uint64_t frame) {
    int depth = entry >> SITE_BITS & (MOST_FRAMES - 1);
    return entry >> KEY_SHIFT == key >> KEY_SHIFT &&
           MUTANT(name_of_another, atomic_load(&way->names) == names_key_of(frame, depth), true);
}

static uint64_t read_way(struct way *way, uint64_t key, uint64_t frame) {
    struct place place = {0};
    read_place(frame, &place);
    lock_take(&self.lock);
    uint64_t entry = key | (uint64_t)place.depth << SITE_BITS | site_of(&place);
    lock_give(&self.lock);
    atomic_store(&way->names, names_key_of(frame, place.depth));
    atomic_store_explicit(&way->entry, entry, memory_order_release);
    return entry;
}

uint32_t names_here(void) {
    uint64_t frame = atomic_load(&names_on) ? frames_innermost() : 0;
    if (!frame)
        return 0;
    uint64_t key = key_of(frame);
    struct way *way = &self.ways[key >> KEY_SHIFT & (WAYS - 1)];
    uint64_t entry = atomic_load_explicit(&way->entry, memory_order_acquire);
    if (!is_known(way, entry, key, frame))
        entry = read_way(way, key, frame);
    uint32_t site = entry & ((1 << SITE_BITS) - 1);
    if (site)
        figure_set(&store_file()->latest_site, site);
    return site;
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

void names_begin(void) {
    if (!getcwd(self.root, sizeof self.root))
        *self.root = 0;
    atomic_store(&names_on, true);
}

void names_end(void) {
    atomic_store(&names_on, false);
}
