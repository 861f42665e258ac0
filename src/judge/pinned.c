/* pinned.c: see pinned.h. PyTorch rounds each page-locked tensor up to a power of two, and asks the
 * driver for that: what the program asked is not known, so it must tell no more than what may be.
 */
#include "judge/pinned.h"
#include "base/base.h"
#include "read/units.h"

#include <string.h>

/* Less is not worth a sentence: chosen, as twice the idle memory that is (VERDICT_IDLE_BYTES). And
 * beside the large blocks there may be small ones: chosen. */
#define LEAST_BYTES ((uint64_t)1 << 30)
enum { SMALL_SHARE = 64 };

/* One that knows it not, before 2.13, raises an error for it. 2.13 itself then hands out freed
 * blocks that are smaller than what is asked for: 150 MiB for 200 (PyTorch's pull request 192722).
 * It is not vramgc's choice, because a freed block no longer serves for a little more: 112 buffers
 * of 16 to 127 MiB, one after the other, held 8,008 MiB instead of 464. */
#define SETTING "pinned_max_round_threshold_mb"

static uint64_t rounded_bytes(const struct vramgc_file *file) {
    uint64_t most = 0;
    for (size_t i = 0; i < file->device_count; i++) {
        const struct vramgc_device_stats *s = &file->devices[i].stats;
        uint64_t rounded = s->pinned_rounded_bytes.peak, all = s->pinned_bytes.peak;
        if (rounded > LEAST_BYTES && minus_u64(all, rounded) <= all / SMALL_SHARE)
            most = max_u64(most, rounded);
    }
    return most;
}

bool pinned_say(struct text *text, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    uint64_t bytes = rounded_bytes(file);
    if (!bytes || !*file->torch_version || strstr(file->alloc_conf, SETTING))
        return false;
    text_format(text,
                " %s of host memory were page-locked, all in powers of two: up to half of it "
                "may be PyTorch's rounding%s.",
                show_bytes(bytes).text,
                stats_file_torch_from(file, 14) ? " (PYTORCH_ALLOC_CONF=" SETTING
                                                  ":1 turns that off)"
                                                : "");
    return true;
}
