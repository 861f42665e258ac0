/* spill_words.c: see spill_words.h. It must promise nothing of a card that is not proven: that may
 * not bear it.
 */
#include "judge/spill_words.h"
#include "read/units.h"
#include "base/base.h"
#include "base/parse.h"

/* Beyond what may lie with the host already, more than was lacking by three of the steps in which
 * PyTorch asks (kLargeBuffer, 20 MiB): what it asks for next needs room, too. Rounded up, for no
 * digit of it is exact. */
static unsigned long long enough_mib(uint64_t lacking_bytes, uint64_t allowed) {
    enum { MORE_MIB = 64, STEP_MIB = 50 };
    uint64_t mib = allowed / MEBIBYTE + lacking_bytes / MEBIBYTE + 1 + MORE_MIB;
    return (mib + STEP_MIB - 1) / STEP_MIB * STEP_MIB;
}

/* Of those that the full card refused, the told one among them: what was lacking at most. How many
 * they were. */
static size_t lacking_at_most(const struct oom *told, uint64_t *bytes) {
    size_t count = 0;
    for (size_t i = 0; i < told->record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = told->record->refusals[i];
        if (refusal->device != told->refusal->device || !is_told_with(told, refusal))
            continue;
        struct oom oom = oom_of(told->record, refusal);
        if (cause_as_told(oom.cause) != cause_as_told(told->cause))
            continue;
        *bytes = max_u64(*bytes, oom.lacking_bytes);
        count++;
    }
    return count;
}

/* Where the host did not give what it may, to allow more is of no use. */
void spill_say(struct text *text, const struct oom *oom) {
    uint64_t bytes = oom->lacking_bytes, allowed = 0, most = 0;
    const char *setting = stats_file_setting(oom->record, "spill");
    bool unproven = oom->record->file->needs_proof == 1;
    if (setting)
        parse_size(setting, &allowed);
    if (!bytes || (allowed && oom->device->stats.spilled_bytes.peak + bytes <= allowed))
        return;
    const char *these = lacking_at_most(oom, &most) > 1 ? "these requests" : "this request";
    unsigned long long mib = enough_mib(most, allowed);
    if (stats_file_mode(oom->record->file) == MODE_COMPACT)
        text_format(text, " --spill %lluMiB would let %s go on, slowly; the next may need more.",
                    mib, these);
    else if (unproven && oom->cause == CAUSE_SMALL)
        text_format(text,
                    " Or run `vramgc prove`, a minute: if it passes, --spill %lluMiB may let %s "
                    "go on, slowly.",
                    mib, these);
}
