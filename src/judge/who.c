/* who.c: see who.h. It shows what the file says, and judges nothing. */
#include "judge/who.h"
#include "base/base.h"
#include "base/text.h"

#include <string.h>

static void write_owners(struct emit *emit, const char *name, const char *help,
                         const struct vramgc_owners *owners) {
    emit_open(emit, name, help);
    emit_number(emit, "live_bytes", UNIT_BYTES, "of everybody together", owners->live_bytes);
    size_t count = emit_list(emit, "list", "the largest first", owners->count);
    for (size_t i = 0; i < count; i++) {
        emit_open_line(emit, NULL, "one owner");
        emit_number(emit, "site", UNIT_ID, "index in sites", owners->list[i].site);
        emit_number(emit, "bytes", UNIT_BYTES, "live; estimated from those blocks",
                    owners->list[i].bytes);
        emit_number(emit, "blocks", UNIT_COUNT, "of it that were looked at",
                    owners->list[i].blocks);
        emit_close(emit);
    }
    emit_close(emit);
    emit_close(emit);
}

void who_fields(struct emit *emit, const struct vramgc_device *device) {
    write_owners(emit, "owners_at_peak", "whose live memory was at its peak",
                 &device->owners_at_peak);
    write_owners(emit, "owners_at_oom", "whose it was at the latest out-of-memory",
                 &device->owners_at_oom);
    write_owners(emit, "owners_grown", "by how much more stayed with each than earlier",
                 &device->owners_grown);
}

void who_sites(struct emit *emit, const struct vramgc_file *file) {
    size_t count = emit_list(emit, "sites", "Python functions that took memory", file->site_count);
    for (size_t i = 0; i < count; i++) {
        const struct vramgc_site *site = &file->sites[i];
        emit_open_line(emit, NULL, "one place");
        emit_text(
            emit, "function",
            "the innermost that is not PyTorch's; of a method with its class, from Python 3.11 on",
            or_null(site->function));
        emit_text(emit, "source", "its file: the last two parts of the path", or_null(site->file));
        emit_number(emit, "line", UNIT_ID, "where it begins", site->line);
        emit_text(emit, "phase", "what it was part of, null: nothing that is known",
                  or_null(site->phase));
        emit_close(emit);
    }
    emit_close(emit);
}

/* ---- rows ---- */

static uint64_t bytes_of(const struct vramgc_owners *owners, uint32_t site) {
    for (uint64_t i = 0; i < owners->count; i++)
        if (owners->list[i].site == site)
            return owners->list[i].bytes;
    return 0;
}

static uint64_t rest_of(const struct vramgc_owners *owners) {
    uint64_t rest = owners->live_bytes;
    for (uint64_t i = 0; i < owners->count; i++)
        rest = minus_u64(rest, owners->list[i].bytes);
    return rest;
}

bool who_has_oom(const struct vramgc_device *device) {
    return device->owners_at_oom.count > 0;
}

size_t who_rows(const struct vramgc_file *file, const struct vramgc_device *device,
                struct who_row rows[WHO_ROWS]) {
    const struct vramgc_owners *peak = &device->owners_at_peak, *oom = &device->owners_at_oom;
    size_t count = 0;
    for (uint64_t i = 0; i < peak->count; i++)
        rows[count++] = (struct who_row){&file->sites[peak->list[i].site], peak->list[i].bytes,
                                         bytes_of(oom, peak->list[i].site)};
    for (uint64_t i = 0; i < oom->count; i++)
        if (!bytes_of(peak, oom->list[i].site))
            rows[count++] =
                (struct who_row){&file->sites[oom->list[i].site], 0, oom->list[i].bytes};
    if (count > 0)
        rows[count++] =
            (struct who_row){NULL, rest_of(peak), who_has_oom(device) ? rest_of(oom) : 0};
    return count;
}

const struct vramgc_site *who_asked(const struct vramgc_file *file,
                                    const struct vramgc_refusal *refusal) {
    bool known = refusal->site > 0 && refusal->site <= file->site_count;
    return known ? &file->sites[refusal->site - 1] : NULL;
}

const struct vramgc_site *who_works_at_peak(const struct vramgc_file *file,
                                            const struct vramgc_device *device,
                                            uint64_t more_bytes) {
    const struct vramgc_owners *peak = &device->owners_at_peak;
    for (uint64_t i = 0; i < peak->count && peak->list[i].bytes >= more_bytes / 2; i++) {
        const struct vramgc_site *site = &file->sites[peak->list[i].site];
        if (strcmp(site->phase, "model move") != 0)
            return site;
    }
    return NULL;
}

static struct who_name name_with(const struct vramgc_site *site, const char *file) {
    struct who_name name;
    struct text text = TEXT_IN(name.text);
    if (strncmp(site->function, "<module>", 8) == 0) /* no function, and it begins in line 1 */
        text_format(&text, "the top level of %s", file);
    else
        text_format(&text, "%s (%s:%lu)", site->function, file, (unsigned long)site->line);
    return name;
}

struct who_name who_name(const struct vramgc_site *site) {
    return site ? name_with(site, site->file)
                : (struct who_name){.text = "others, and not asked for by name"};
}

struct who_name who_short_name(const struct vramgc_site *site) {
    return name_with(site, text_after_folder(site->file));
}

void who_say_most(struct text *text, const struct stats_file *record,
                  const struct vramgc_device *device, bool at_oom) {
    bool then = at_oom && device && who_has_oom(device);
    if (!device || !(then || device->owners_at_peak.count))
        return;
    const struct vramgc_owners *owners = then ? &device->owners_at_oom : &device->owners_at_peak;
    const struct vramgc_site *site = &record->file->sites[owners->list[0].site];
    text_format(text, "%s of %s live %s: %s%s%s", show_bytes(owners->list[0].bytes).text,
                show_bytes(owners->live_bytes).text, then ? "then" : "at the peak",
                who_name(site).text, *site->phase ? ", " : "", site->phase);
}
