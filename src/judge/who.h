/* who.h: whose live memory was, as rows and in words. */
#pragma once

#include "judge/peak.h"
#include "read/stats_file.h"
#include "base/text.h"

/* A line of a table: what is theirs at the peak of live memory and, if there was one, at the
 * out-of-memory. site NULL: what nobody is known by name for. */
struct who_row {
    const struct vramgc_site *site;
    uint64_t peak_bytes, oom_bytes;
};

/* Of a device: the largest at the peak first, then who is so only at the out-of-memory, then the
 * rest. 0: nobody is known. */
enum { WHO_ROWS = 2 * VRAMGC_MAX_OWNERS + 1 };
size_t who_rows(const struct vramgc_file *file, const struct vramgc_device *device,
                struct who_row rows[WHO_ROWS]);
bool who_has_oom(const struct vramgc_device *device);

/* Whose some live memory was and who had called them: as indexes of sites, the outermost first. */
struct who_stack {
    uint64_t sites[VRAMGC_MAX_DEPTH], depth, bytes;
};

/* The one of that number: of calls, the largest first; then of owners, what is theirs beside that,
 * perhaps nothing, with nobody who called them. False: there are no more. */
bool who_stack(const struct vramgc_file *file, const struct vramgc_owners *owners,
               const struct vramgc_owners *calls, size_t number, struct who_stack *stack);

/* Whether both are the same function, perhaps of two programs, and part of the same. */
bool who_is_same(const struct vramgc_site *a, const struct vramgc_site *b);

/* The place that asked for what was refused; NULL: not known. */
const struct vramgc_site *who_asked(const struct vramgc_file *file,
                                    const struct vramgc_refusal *refusal);

/* The largest at a short peak but for models, and for what was there in other time, too: it may be
 * what made the peak if it has about as much as that was higher than all else. NULL: not known. */
const struct vramgc_site *who_works_at_peak(const struct vramgc_file *file,
                                            const struct vramgc_device *device,
                                            const struct short_peak *peak);

/* "encode_prompt (pipelines/pipeline.py:212)"; short, of a site that is
 * known: "encode_prompt (pipeline.py:212)". */
struct who_name {
    char text[160];
};
struct who_name who_name(const struct vramgc_site *site);
struct who_name who_short_name(const struct vramgc_site *site);

/* "5.0 GiB of 7.0 GiB live at the peak: load_model (modules/sd_models.py:310), model move": of the
 * latest out-of-memory, where asked for and known, else of the peak. Nothing where nobody is known;
 * device may be NULL. */
void who_say_most(struct text *text, const struct stats_file *record,
                  const struct vramgc_device *device, bool at_oom);
