/* text_encoder.c: see text_encoder.h. It must not guess: the transformers library moves its models
 * by functions of its own, by which they are known. A move by others does not tell of which model
 * it is. */
#include "cli/text_encoder.h"
#include "cli/who.h"
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

static bool is_later_work(const struct vramgc_site *site) {
    return site && (strcmp(site->phase, "denoise") == 0 || strcmp(site->phase, "VAE") == 0);
}

/* The owners are of the latest out-of-memory; of an earlier one it is not known who had what. */
static bool owners_known(const struct oom *oom) {
    const struct stats_file *record = oom->record;
    const struct vramgc_refusal *latest = NULL;
    for (size_t i = 0; i < record->refusal_count; i++)
        if (record->refusals[i]->reported && record->refusals[i]->device == oom->refusal->device)
            latest = record->refusals[i];
    return latest == oom->refusal;
}

uint64_t text_encoder_bytes(const struct oom *oom) {
    const struct vramgc_file *file = oom->record->file;
    const struct vramgc_owners *owners = &oom->device->owners_at_oom;
    uint64_t bytes = 0;
    if (!owners_known(oom) || !is_later_work(who_asked(file, oom->refusal)))
        return 0;
    for (uint64_t i = 0; i < owners->count; i++)
        if (moves_encoder(&file->sites[owners->list[i].site]))
            bytes += owners->list[i].bytes;
    return bytes >= max_u64(oom->lacking_bytes, 1) ? bytes : 0;
}
