/* text_encoder.c: see text_encoder.h. It must not guess: the transformers library moves its models
 * by functions of its own, by which they are known. A move by others does not tell of which model
 * it is. */
#include "judge/text_encoder.h"
#include "judge/who.h"
#include "base/base.h"

#include <string.h>

static const char *const movers[] = {"transformers/modeling_utils.py",
                                     "transformers/core_model_loading.py"};

static bool moves_encoder(const struct vramgc_site *site) {
    bool moves = false;
    for (size_t i = 0; i < ARRAY_LENGTH(movers); i++)
        moves = moves || strcmp(site->file, movers[i]) == 0;
    return moves && strcmp(site->phase, "model move") == 0;
}

/* By their phase. */
static const struct {
    const char *phase, *work;
} later_work[] = {{"denoise", "denoising"}, {"VAE", "the VAE"}};

/* NULL: it was asked for by other work, or that is not known. */
static const char *work_of(const struct vramgc_site *site) {
    for (size_t i = 0; site && i < ARRAY_LENGTH(later_work); i++)
        if (strcmp(site->phase, later_work[i].phase) == 0)
            return later_work[i].work;
    return NULL;
}

/* The owners are of the latest out-of-memory; of an earlier one it is not known who had what. */
static bool owners_known(const struct oom *oom) {
    const struct stats_file *record = oom->record;
    const struct vramgc_refusal *latest = NULL;
    for (size_t i = 0; i < record->refusal_count; i++)
        if (record->refusals[i]->device == oom->refusal->device)
            latest = refusal_to_tell(latest, record->refusals[i]);
    return latest == oom->refusal && oom->of_pytorch;
}

struct text_encoder text_encoder_of(const struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    const struct vramgc_owners *owners = &oom->device->owners_at_oom;
    struct text_encoder encoder = {.work = work_of(who_asked(file, oom->refusal))};
    if (!encoder.work || !owners_known(oom))
        return encoder;
    for (uint64_t i = 0; i < owners->count; i++)
        if (moves_encoder(&file->sites[owners->list[i].site]))
            encoder.bytes += owners->list[i].bytes;
    if (encoder.bytes < oom->lacking_bytes)
        encoder.bytes = 0;
    return encoder;
}
