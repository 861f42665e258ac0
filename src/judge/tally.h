/* tally.h: what the records of a run say together, counted, for the verdict to judge by, and as
 * facts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "judge/facts.h"
#include "read/stats_file.h"

/* Sums are double: the figures of a damaged file must not wrap. */
struct tally {
    struct stats_file *const *records;
    size_t count;
    double ooms, unseen_ooms, would_reclaims, reclaimed_bytes, reclaim_ns;
    size_t failed;  /* entries in the files' lists that were not granted later; of these are */
    size_t went_on; /* the work, at once, without the memory */
    size_t failed_hosts, failed_others; /* page-locked memory; what was no error of PyTorch's */
    size_t granted;
    size_t impossible;                           /* processes that asked for what compact refuses */
    uint64_t most_net_bytes;                     /* of one reclaim */
    const struct stats_file *failed_in;          /* the one of them that is told, or NULL */
    const struct vramgc_refusal *failed_refusal; /* and its record */
    const struct stats_file *crashed;            /* the last that is_crash(), or has_vanished() */
    bool blocks_seen;
    bool pool_idle; /* the driver's, where one of our own would have stood in */
    const struct vramgc_device *highest; /* most held where blocks were seen, or NULL */
    const struct stats_file *highest_in; /* the record it is from */
};

/* idle, as VERDICT_IDLE counts it: PyTorch held at most more than was live at most, by at least
 * this part of what the process held at most, and at least this much. Chosen, not
 * measured: room for a text encoder more (CLIP-L has 0.2 GiB, CLIP-G 1.3). */
#define VERDICT_IDLE_SHARE 0.25
#define VERDICT_IDLE_BYTES ((uint64_t)512 << 20)

struct tally tally_of(struct stats_file *const *records, size_t count);

/* Nothing was refused that the work did not do without. */
bool tally_all_went_on(const struct tally *tally);

/* How often the program was out of memory. */
uint64_t tally_ooms(const struct tally *tally);

/* At the peak; or when the program rested last, where the card was full and nobody gives it back.
 */
bool idle_is_much(const struct tally *tally);

/* "CRASHED at 0:03.200: SIGSEGV.", behind what is said already, or that one has vanished; NULL:
 * nothing. */
void crash_say(struct text *text, const struct stats_file *crashed);

/* For sentences.def: of idle memory, where tally->highest is not NULL, beside a verdict that may
 * tell of the driver's pool; of all that was done; and of a crash, which is of no case where
 * neither the signal tells why nor Linux is known to have ended some. */
void facts_of_idle(struct facts *facts, const struct tally *tally, bool pool_told);
void facts_of_run(struct facts *facts, const struct tally *tally);
void facts_of_crash(struct facts *facts, const struct stats_file *crashed);
void facts_of_ram(struct facts *facts, const struct vramgc_file *file);
