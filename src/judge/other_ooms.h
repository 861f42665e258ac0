/* other_ooms.h: a run in which memory ran out several times, for more than one cause. The report is
 * about the latest; this says how many were for another. */
#pragma once

#include "base/text.h"
#include "judge/cause.h"

/* " This was the cause 2x, fragmentation 5x." of all files together. Nothing where all were for the
 * cause of the one that is told. count: how many errors there were. */
void other_ooms_say(struct text *text, struct stats_file *const *records, size_t record_count,
                    const struct oom *told, uint64_t count);

/* What to do about them, where everybody can: " Against fragmentation `vramgc prove` is the
 * remedy." */
void other_ooms_say_todo(struct text *text, struct stats_file *const *records, size_t record_count,
                         const struct oom *told);
