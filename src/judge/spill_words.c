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
static unsigned long long enough_mib(const struct oom *oom, uint64_t allowed) {
    enum { MORE_MIB = 64, STEP_MIB = 50 };
    uint64_t mib = allowed / MEBIBYTE + oom->lacking_bytes / MEBIBYTE + 1 + MORE_MIB;
    return (mib + STEP_MIB - 1) / STEP_MIB * STEP_MIB;
}

/* Where the host did not give what it may, to allow more is of no use. */
void spill_say(struct text *text, const struct oom *oom) {
    uint64_t bytes = oom->lacking_bytes, allowed = 0;
    const char *setting = stats_file_setting(oom->record, "spill");
    bool unproven = oom->record->file->needs_proof == 1;
    if (setting)
        parse_size(setting, &allowed);
    if (!bytes || (allowed && oom->device->stats.spilled_bytes.peak + bytes <= allowed))
        return;
    if (stats_file_mode(oom->record->file) == MODE_COMPACT)
        text_format(text, " --spill %lluMiB would let this request go on, slowly.",
                    enough_mib(oom, allowed));
    else if (unproven && oom->cause == CAUSE_SMALL)
        text_format(text,
                    " Or run `vramgc prove`, a minute: if it passes, --spill %lluMiB may let this "
                    "request go on, slowly.",
                    enough_mib(oom, allowed));
}
