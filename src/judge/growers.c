/* growers.c: see growers.h. It must name no function for a part: one that has more than half, or
 * none. */
#include "judge/growers.h"
#include "judge/who.h"
#include "read/units.h"
#include "base/base.h"

#include <string.h>

typedef bool are_alike(const struct vramgc_site *one, const struct vramgc_site *other);

static bool same_place(const struct vramgc_site *one, const struct vramgc_site *other) {
    return one == other;
}

static bool same_phase(const struct vramgc_site *one, const struct vramgc_site *other) {
    return *one->phase && strcmp(one->phase, other->phase) == 0;
}

static bool same_file(const struct vramgc_site *one, const struct vramgc_site *other) {
    return *one->file && strcmp(one->file, other->file) == 0;
}

static bool loads(const struct vramgc_site *site) {
    return strcmp(site->phase, "model move") == 0 || strcmp(site->phase, "LoRA") == 0;
}

static bool both_load(const struct vramgc_site *one, const struct vramgc_site *other) {
    return loads(one) && loads(other);
}

/* The list is of an eighth to a quarter of the run (owners.h), grown_bytes of three quarters: with
 * whom all of it stays has a sixth of it there at least; below half of that others, who are not
 * known, have more. */
static const struct vramgc_site *most(const struct vramgc_file *file,
                                      const struct vramgc_owners *grown, uint64_t grown_bytes,
                                      are_alike *alike) {
    enum { SHARE = 12 };
    for (uint64_t i = 0; i < grown->count; i++) {
        const struct vramgc_site *site = &file->sites[grown->list[i].site];
        uint64_t bytes = 0;
        for (uint64_t j = 0; j < grown->count; j++)
            if (alike(site, &file->sites[grown->list[j].site]))
                bytes += grown->list[j].bytes;
        if (bytes > grown->live_bytes / 2 && bytes >= grown_bytes / SHARE)
            return site;
    }
    return NULL;
}

void growers_say(struct text *text, const struct vramgc_file *file,
                 const struct vramgc_device *device, uint64_t grown_bytes) {
    const struct vramgc_owners *grown = &device->owners_grown;
    const struct vramgc_site *site = most(file, grown, grown_bytes, same_place);
    const struct vramgc_site *of_phase = most(file, grown, grown_bytes, same_phase);
    const struct vramgc_site *of_file = most(file, grown, grown_bytes, same_file);
    if (site)
        text_format(text, "; most comes from %s%s%s", who_short_name(site).text,
                    *site->phase ? ", " : "", site->phase);
    else if (of_phase || of_file)
        text_format(text, "; most comes from %s",
                    of_phase ? of_phase->phase : text_after_folder(of_file->file));
}

bool growers_load(const struct vramgc_file *file, const struct vramgc_device *device,
                  uint64_t grown_bytes) {
    return most(file, &device->owners_grown, grown_bytes, both_load);
}

const struct vramgc_owner *growers_pile(const struct vramgc_file *file,
                                        const struct vramgc_device *device,
                                        const struct vramgc_refusal *refusal) {
    enum { LEAST = 8, ROUNDING = 16 }; /* a segment is rounded up to 2 MiB */
    enum { LEAST_BYTES = 2 << 20 };    /* the sizes of smaller ones are not known */
    const struct vramgc_owners *owners = &device->owners_at_oom;
    const struct vramgc_owner *owner = owners->list;
    if (!owners->count || refusal->request_bytes < LEAST_BYTES ||
        refusal->site != owner->site + 1 || owner->blocks < LEAST ||
        owner->bytes <= owners->live_bytes / 2 || loads(&file->sites[owner->site]))
        return NULL;
    uint64_t mean = owner->bytes / owner->blocks, wanted = refusal->request_bytes;
    uint64_t differs = max_u64(mean, wanted) - min_u64(mean, wanted);
    return differs <= wanted / ROUNDING ? owner : NULL;
}

void growers_say_pile(struct text *text, const struct vramgc_file *file,
                      const struct vramgc_owner *pile) {
    const struct vramgc_site *site = &file->sites[pile->site];
    text_format(text,
                "Tensors fill the card, and grow by %s at a time: %s of these are live, all of "
                "%s%s%s.",
                show_bytes(pile->bytes / pile->blocks).text, show_count(pile->blocks).text,
                who_short_name(site).text, *site->phase ? ", " : "", site->phase);
}
