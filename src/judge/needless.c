/* needless.c: see needless.h. It must not tell what the emptying of a cache has cost, for nobody
 * measures the program's own calls; and of page-locked memory no more than what may be: PyTorch
 * rounds each tensor up to a power of two, and what the program asked is not known. */
#include "judge/needless.h"
#include "judge/webui.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"

#include <string.h>

/* Again and again: as often as growth has to show (cause.c). Next to nothing idle: compact with
 * --lowvram held 1.01 to 1.06 times what was live (tests/lab/FIGURES.md). */
enum { LEAST_TIMES = 8 };
#define MOST_HELD_OVER_LIVE 1.1

/* PyTorch itself frees segments where one of these is set; neither touches expandable ones. */
static bool by_pytorch(const struct vramgc_file *file) {
    const char *conf = file->alloc_conf;
    return !stats_file_is_expandable(file) &&
           (strstr(conf, "garbage_collection_threshold") || strstr(conf, "max_split_size_mb"));
}

/* Below the threshold PyTorch's cache stays as it is, and a program that empties it does so for
 * something. */
static bool held_little(const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    bool little =
        stats_file_mode(file) == MODE_COMPACT && stats_file_setting_is(record, "lowvram", "1");
    for (size_t i = 0; i < file->device_count; i++) {
        struct derived ratio = derived_figure(DERIVED_held_over_live_weighted, &file->devices[i]);
        little = little && (!ratio.known || ratio.value <= MOST_HELD_OVER_LIVE);
    }
    return little;
}

bool needless_say(struct text *text, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    const char *advice = webui_of(file)->collects;
    if (!advice || file->process.cache_empties < LEAST_TIMES || by_pytorch(file) ||
        !held_little(record))
        return false;
    text_format(text,
                " The program itself emptied PyTorch's cache %s times, for next to nothing: "
                "compact leaves no memory in it. %s",
                show_count(file->process.cache_empties).text, advice);
    return true;
}

/* ---- page-locked memory ---- */

/* Less is not worth a sentence: chosen, as twice the idle memory that is (VERDICT_IDLE_BYTES). And
 * beside the large blocks there may be small ones: chosen. */
#define LEAST_PINNED_BYTES ((uint64_t)1 << 30)
enum { SMALL_SHARE = 64 };

/* One that knows it not, before 2.13, raises an error for it. 2.13 itself then hands out freed
 * blocks that are smaller than what is asked for: 150 MiB for 200 (PyTorch's pull request 192722).
 * It is not vramgc's choice, because a freed block no longer serves for a little more: 112 buffers
 * of 16 to 127 MiB, one after the other, held 8,008 MiB instead of 464. */
#define ROUNDING_SETTING "pinned_max_round_threshold_mb"

static uint64_t rounded_bytes(const struct vramgc_file *file) {
    uint64_t most = 0;
    for (size_t i = 0; i < file->device_count; i++) {
        const struct vramgc_device_stats *s = &file->devices[i].stats;
        uint64_t rounded = s->pinned_rounded_bytes.peak, all = s->pinned_bytes.peak;
        if (rounded > LEAST_PINNED_BYTES && minus_u64(all, rounded) <= all / SMALL_SHARE)
            most = max_u64(most, rounded);
    }
    return most;
}

bool pinned_say(struct text *text, const struct stats_file *record) {
    const struct vramgc_file *file = record->file;
    uint64_t bytes = rounded_bytes(file);
    if (!bytes || !*file->torch_version || strstr(file->alloc_conf, ROUNDING_SETTING))
        return false;
    text_format(text,
                " %s of host memory were page-locked, all in powers of two: up to half of it "
                "may be PyTorch's rounding%s.",
                show_bytes(bytes).text,
                stats_file_torch_from(file, 14) ? " (PYTORCH_ALLOC_CONF=" ROUNDING_SETTING
                                                  ":1 turns that off)"
                                                : "");
    return true;
}
