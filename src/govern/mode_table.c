/* mode_table.c: see mode_table.h. It must not choose the page engine where anything is not known to
 * be sound. */
#include "govern/mode_table.h"

#include "base/base.h"
#include "base/text.h"
#include "govern/torch.h"

/* PyTorch 2.0 was made for CUDA 11.7, which runs on drivers of CUDA 11.0 on, from 450.80.02
 * (docs.nvidia.com/deploy/cuda-compatibility, minor version compatibility). */
enum { OLDEST_DRIVER = 11000 };

/* A row of the table: where all of `needs` hold and none of `excludes`. */
enum fact {
    AUTO = 1 << 0,    /* VRAMGC_MODE=auto */
    COMPACT = 1 << 1, /* VRAMGC_MODE=compact */
    WSL = 1 << 2,
    MAPS = 1 << 3,   /* the devices say that they can map memory */
    DRIVER = 1 << 4, /* the driver is known and new enough */
    TORCH = 1 << 5,  /* PyTorch's version is known */
    OLDER = 1 << 6,  /* ... and older than what was tried */
    NEWER = 1 << 7,  /* ... or newer */
    FIT = 1 << 8,    /* its block events are those that are known */
    DIFFER = 1 << 9,
    ASYNC = 1 << 10,      /* PyTorch's allocator is cudaMallocAsync */
    PASSED = 1 << 11,     /* a device passed the self-test */
    FAILED = 1 << 12,     /* a device failed it */
    EXPANDABLE = 1 << 13, /* PyTorch's segments grow: it maps their memory itself */
    AIMDO = 1 << 14,      /* comfy-aimdo is loaded */
    PROVEN = 1 << 15,     /* `vramgc prove` has found that the devices bear the page engine */
    REFUTED = 1 << 16,    /* ... or that one does not */
    OUTDATED = 1 << 17,   /* ... with another driver, or for another engine */
    PASSED_BY = 1 << 18,  /* another interposer would not see what compact takes */
    ADDRESSES = 1 << 19,  /* of these there is a limit (ulimit -v) */
    OWN_POOL = 1 << 20,   /* a pool of ours serves ASYNC, not the driver's */
};

#define ASKED_FOR "asked for (--mode, or VRAMGC_MODE)"

/* In a reason %t is PyTorch's version, %n the newest that was tried, %d the driver's version, %p
 * the devices that passed the self-test, %f those that failed, %u those that lack a proof, %w why
 * or what gives them one, and %i the other interposer. */
static const struct row {
    unsigned needs, excludes;
    enum option_mode mode;
    const char *why;
} rows[] = {
    {COMPACT | FAILED, PASSED, MODE_FLUSH,
     "VRAMGC_MODE=compact, but the self-test of mapping pages failed on %f"},
    {COMPACT | FAILED, 0, MODE_COMPACT,
     ASKED_FOR "; self-test passed on %p, failed on %f: mode flush there"},
    {COMPACT | ASYNC, OWN_POOL, MODE_COMPACT,
     ASKED_FOR "; but PyTorch uses cudaMallocAsync, whose pool is trimmed "
               "as in flush"},
    {COMPACT | PASSED, 0, MODE_COMPACT, ASKED_FOR "; self-test passed on %p"},
    {AUTO | WSL, 0, MODE_FLUSH, "under WSL mapping memory fails with many drivers"},
    {AUTO | ADDRESSES, 0, MODE_FLUSH, "addresses are limited (ulimit -v), and compact takes more"},
    {AUTO, MAPS, MODE_FLUSH, "a device cannot map memory page by page"},
    {AUTO, DRIVER, MODE_FLUSH, "driver %d is not known to map memory page by page"},
    {AUTO, TORCH, MODE_FLUSH, "PyTorch's version is not known"},
    {AUTO | OLDER, 0, MODE_FLUSH, "PyTorch %t is older than what was tried"},
    {AUTO | AIMDO, 0, MODE_FLUSH,
     "ComfyUI's DynamicVRAM (comfy-aimdo) frees memory only for requests that reach the driver"},
    {AUTO | PASSED_BY, 0, MODE_FLUSH,
     "%i answers for the driver, but not for cuMemCreate: compact would go round it"},
    {AUTO | REFUTED, 0, MODE_FLUSH, "`vramgc prove` found that %u does not support compact"},
    {AUTO | OUTDATED, 0, MODE_FLUSH, "the proof of %u is of another driver or vramgc: %w"},
    {AUTO | ASYNC, PROVEN | OWN_POOL, MODE_FLUSH,
     "PyTorch uses cudaMallocAsync, whose pool is trimmed; %u has no proof: %w"},
    {AUTO, PROVEN, MODE_FLUSH, "compact is not tested yet on %u: %w"},
    {AUTO | ASYNC, OWN_POOL, MODE_FLUSH, "PyTorch uses cudaMallocAsync, whose pool is trimmed"},
    {AUTO | FAILED, PASSED, MODE_FLUSH, "the self-test of mapping pages failed on %f"},
    {AUTO | NEWER | EXPANDABLE, 0, MODE_FLUSH,
     "PyTorch %t is newer than %n: its expandable segments are not known"},
    {AUTO | NEWER | DIFFER, 0, MODE_FLUSH,
     "PyTorch %t is newer than %n, and its block events differ"},
    {AUTO | NEWER, FIT, MODE_FLUSH,
     "PyTorch %t is newer than %n: its block events are checked first"},
    {AUTO | NEWER, PASSED, MODE_COMPACT,
     "PyTorch %t, newer than %n, has known block events; driver %d; not self-tested yet"},
    {AUTO | NEWER, FAILED, MODE_COMPACT,
     "PyTorch %t, newer than %n, has known block events; driver %d, self-test passed on %p"},
    {AUTO | FAILED, 0, MODE_COMPACT,
     "PyTorch %t, driver %d, self-test passed on %p, failed on %f: mode flush there"},
    {AUTO | PASSED, 0, MODE_COMPACT, "PyTorch %t, driver %d, self-test passed on %p"},
    {AUTO, 0, MODE_COMPACT, "PyTorch %t, driver %d, not self-tested yet"},
};

static unsigned facts_of_torch(const struct mode_facts *facts) {
    struct torch_version version;
    if (!torch_parse(facts->torch, &version))
        return 0;
    return TORCH | (torch_at_least(&version, TORCH_OLDEST) ? 0 : OLDER) |
           (torch_at_least(&version, TORCH_NEWEST + 1) ? NEWER : 0);
}

static unsigned as_set(const struct mode_facts *facts) {
    unsigned set = facts_of_torch(facts);
    set |= facts->wish == MODE_AUTO ? AUTO : facts->wish == MODE_COMPACT ? COMPACT : 0;
    set |= facts->wsl ? WSL : 0;
    set |= facts->addresses_limited ? ADDRESSES : 0;
    set |= facts->aimdo ? AIMDO : 0;
    set |= facts->maps ? MAPS : 0;
    set |= facts->interposer[0] ? PASSED_BY : 0;
    set |= facts->driver >= OLDEST_DRIVER ? DRIVER : 0;
    set |= facts->events == EVENTS_FIT ? FIT : facts->events == EVENTS_DIFFER ? DIFFER : 0;
    set |= facts->own_pool ? OWN_POOL : 0;
    set |= alloc_conf_says(facts->alloc_conf, "backend", "cudaMallocAsync") ? ASYNC : 0;
    set |= alloc_conf_says(facts->alloc_conf, "expandable_segments", "True") ? EXPANDABLE : 0;
    set |= facts->proof == PROOF_PASSED   ? PROVEN
           : facts->proof == PROOF_FAILED ? REFUTED
           : facts->proof == PROOF_OTHER  ? OUTDATED
                                          : 0;
    set |= facts->passed ? PASSED : 0;
    return set | (facts->failed ? FAILED : 0);
}

/* "gpu0", "gpu0,2" */
static void add_devices(struct text *text, unsigned devices) {
    const char *before = "gpu";
    for (unsigned i = 0; i < 32 && devices >> i; i++) {
        if (!(devices >> i & 1))
            continue;
        text_format(text, "%s%u", before, i);
        before = ",";
    }
}

static void add_reason_word(struct text *text, char letter, const struct mode_facts *facts) {
    static const unsigned newest[] = {TORCH_NEWEST};
    if (letter == 't')
        text_add(text, facts->torch);
    else if (letter == 'w')
        text_add(text, *facts->unproven ? facts->unproven : "run `vramgc prove`, a minute");
    else if (letter == 'i')
        text_add(text, facts->interposer);
    else if (letter == 'n')
        text_format(text, "%u.%u", newest[0], newest[1]);
    else if (letter == 'd' && facts->driver)
        driver_version_say(text, facts->driver, facts->driver_version);
    else if (letter == 'd')
        text_add(text, "of unknown version");
    else
        add_devices(text, letter == 'p'   ? facts->passed
                          : letter == 'f' ? facts->failed
                                          : facts->least_proven);
}

static void explain_row(const char *why, const struct mode_facts *facts, struct text *text) {
    for (; *why; why++)
        if (*why == '%')
            add_reason_word(text, *++why, facts);
        else
            text_add_n(text, why, 1);
}

/* NULL: the mode was asked for, and nothing else is to be said. */
static const struct row *find_row(unsigned set) {
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if ((set & rows[i].needs) == rows[i].needs && !(set & rows[i].excludes))
            return &rows[i];
    return NULL;
}

struct mode_choice mode_choose(const struct mode_facts *facts) {
    const unsigned against_steps = WSL | ADDRESSES | OLDER | NEWER | PASSED_BY;
    struct mode_choice choice = {.mode = facts->wish};
    struct text text = TEXT_IN(choice.why);
    unsigned set = as_set(facts);
    const struct row *row = find_row(set);
    if (row) {
        choice.mode = row->mode;
        choice.driver_pool = row->needs & ASYNC;
        choice.needs_proof = (row->needs & OUTDATED) || (row->excludes & PROVEN);
    }
    bool known = set & TORCH || !(set & AUTO);
    choice.keeps_steps = choice.mode == MODE_FLUSH && known && !(set & against_steps);
    explain_row(row ? row->why : ASKED_FOR, facts, &text);
    if (choice.mode == MODE_COMPACT && set & ASYNC && set & OWN_POOL)
        text_add(&text, "; vramgc's own pool serves cudaMallocAsync");
    return choice;
}
