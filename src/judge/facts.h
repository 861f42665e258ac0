/* facts.h: what is known of a case, in the form that tables ask for it: what it is a case of, a set
 * of facts, and words for the gaps of sentences. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "read/stats_file.h"

/* A case is of one cause of an out-of-memory (FULL, ...), of idle memory, of an end by SIGKILL, of
 * all that was done, or of what rises. */
enum case_of {
#define CAUSE(name, ...) name = 1 << VRAMGC_CAUSE_##name,
#include "causes.def"
    OOM = (1 << VRAMGC_CAUSES) - 1, /* any of these */
    IDLE = 1 << VRAMGC_CAUSES,
    KILLED = 1 << (VRAMGC_CAUSES + 1), /* by whom is not known */
    KILLED_BY_LINUX = 1 << (VRAMGC_CAUSES + 2),
    KILLED_BY_OTHERS = 1 << (VRAMGC_CAUSES + 3),
    RUN = 1 << (VRAMGC_CAUSES + 4),
    RISES = 1 << (VRAMGC_CAUSES + 5) /* what is live, or RAM, more and more */
};

enum fact {
    /* of the program, whatever happened */
    OBSERVE = 1 << 0, /* the mode that it became */
    COMPACT = 1 << 1,
    FLUSH = 1 << 2,
    UNPROVEN = 1 << 3, /* mode auto waits for nothing but a proof (govern/mode_table.c) */
    ASKED = 1 << 4,    /* a mode was asked for by name */
    LOWVRAM = 1 << 5,
    GRAPHS = 1 << 6, /* CUDA graphs were captured: what they keep goes back in no mode */
    EXPANDABLE = 1 << 7,
    NO_PAGES = 1 << 8,    /* mode auto found that compact cannot be here */
    DRIVER_POOL = 1 << 9, /* the driver's pool serves, where one of ours would have stood in */
    SEGMENTS = 1 << 10,   /* vramgc chose PyTorch's kind of segments */
    CAP = 1 << 11,        /* VRAMGC_CAP is set */

    /* of an out-of-memory */
    WENT_ON = 1 << 12,    /* the work, at once, without the memory */
    PYTORCH = 1 << 13,    /* asked for it, as far as is known */
    FOREIGN = 1 << 14,    /* code other than PyTorch's cache asked, or has all that there is */
    NO_CACHE = 1 << 15,   /* PyTorch's allocator never reserved anything */
    NO_CONTEXT = 1 << 16, /* no room for a CUDA context, and no process is known by name */
    CHILD = 1 << 17,      /* the largest other process was started by the program */
    SEVERAL = 1 << 18,    /* what it has would not have been enough */
    OLLAMA = 1 << 19,
    LOADS = 1 << 20,           /* a model was being brought to the card */
    GROWS = 1 << 21,           /* it is no load: live memory does */
    PROVE_HELPS = 1 << 24,     /* against fragmentation, which was the cause at another time */
    GRAPHS_WOULD_DO = 1 << 25, /* GRAPHS, and what is idle would have sufficed */
    MISCOUNTED = 1 << 26,      /* PyTorch's message counts idle memory as free */
    STAYED = 1 << 27,          /* more is live at rest than after the first job, and enough */
    MORE_COMES = 1 << 28,      /* LOADS, or as such: what this request lacked says little */

    /* of idle memory, in the same bits: a case is of one */
    AT_PEAK = 1 << 12,   /* much was idle then; else at the latest moment */
    UNTOUCHED = 1 << 13, /* some was idle at the latest moment, and was left alone */
    POOL_TOLD = 1 << 14, /* the verdict tells of the driver's pool */
    THRESHOLD = 1 << 15, /* memory goes back only while the card is as full as VRAMGC_THRESHOLD */

    /* of what rises */
    ON_CARD = 1 << 12,
    IN_RAM = 1 << 13,
    PINNED = 1 << 14, /* most of that */
    IN_JOB = 1 << 15, /* not from job to job */

    /* of a run */
    IMPOSSIBLE = 1 << 12,  /* compact was asked for what it cannot do */
    WARNED = 1 << 13,      /* PyTorch wrote of requests that were refused and did no harm */
    TOLD = 1 << 14,        /* an out-of-memory is told */
    GROWTH_TOLD = 1 << 15, /* ... of memory that rose to the end */
    UNSEEN = 1 << 16       /* it used CUDA, and no memory of PyTorch's allocator was seen */
};

/* Rows are of one of `of`, with all of `needs`, and with none of `unless`. */
struct when {
    unsigned of, needs, unless;
};

enum { FACT_WORDS = 64 };

struct facts {
    unsigned of, has;
    size_t word_count;
    struct {
        const char *name;
        char text[320];
    } words[FACT_WORDS];
};

/* Begins anew. */
void facts_begin(struct facts *facts, unsigned of);
void fact_if(struct facts *facts, bool holds, unsigned which);

/* The first of a name stays. text NULL or empty: not known. */
void fact_word(struct facts *facts, const char *name, const char *text);
void fact_bytes(struct facts *facts, const char *name, uint64_t bytes);

/* 0: not known. */
void fact_some(struct facts *facts, const char *name, uint64_t bytes);
void fact_count(struct facts *facts, const char *name, uint64_t count);

/* These hold for the program whatever happened. */
void facts_of_program(struct facts *facts, const struct stats_file *record);

/* The word for {name}; NULL: not known. */
const char *fact_text(const struct facts *facts, const char *name, size_t length);

/* Each {word} is known, up to the end or to a ], but for those in [brackets]. */
bool facts_know(const struct facts *facts, const char *words);

/* The row is of the case, and each {word} of it, but for those in [brackets], is known. */
bool facts_fit(const struct facts *facts, const struct when *when, const char *words);
