/* needless.c: see needless.h. It must not tell what the emptying of a cache has cost: nobody
 * measures the program's own calls. */
#include "judge/needless.h"
#include "read/derived.h"
#include "read/units.h"
#include "judge/webui.h"

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
