/* device_table.c: see device_table.h. It shows figures and computes none; those come from
 * derived.h and device_rows.h. */
#include "show/device_table.h"
#include "read/derived.h"
#include "show/device_rows.h"
#include "show/graph.h"
#include "show/summary_lines.h"

#include "base/base.h"
#include "base/text.h"

#include <string.h>

static void write_device_row(FILE *out, const struct device_table *table, const char *label,
                             const char *peak, const char *then, const char *last) {
    if (table->has_refusal)
        summary_line(out, "%-33s %9s %20s %14s", label, peak, then, last);
    else
        summary_line(out, "%-33s %16s %14s", label, peak, last);
}

/* What adds up to the card has its sign in front. */
static void write_device_rows(FILE *out, const struct device_table *table, bool all) {
    enum row_group group = ROWS_OF_CARD;
    for (size_t i = 0; i < table->count; i++) {
        const struct device_row *row = &table->rows[i];
        char label[48];
        if (row->is_detail && !all)
            continue;
        snprintf(label, sizeof label, "%s%s", strchr("+=", *row->label) ? "" : "  ", row->label);
        if (row->group == ROWS_OF_ALLOCATOR && group == ROWS_OF_CARD)
            summary_line(out, "PyTorch's allocator, each figure at its own peak");
        group = row->group;
        write_device_row(out, table, label, row->peak.text, row->then.text, row->last.text);
    }
}

struct figure show_ooms(const struct vramgc_file *file, uint64_t ooms) {
    bool is_known = ooms > 0 || !strstr(file->alloc_conf, "cudaMallocAsync");
    return is_known ? show_count(ooms) : show_real(false, 0, 0);
}

uint64_t all_driver_calls(const struct vramgc_device_stats *stats) {
    uint64_t own = stats->page_calls;
    return stats->driver_calls > UINT64_MAX - own ? UINT64_MAX : stats->driver_calls + own;
}

static void write_driver_calls(FILE *out, const struct vramgc_device_stats *s) {
    if (s->page_calls > 0)
        summary_line(out, "driver calls: %s, of which vramgc's for pages: %s",
                     show_count(all_driver_calls(s)).text, show_count(s->page_calls).text);
    else
        summary_line(out, "driver calls: %s", show_count(s->driver_calls).text);
}

/* PyTorch counts those, too, without which the work went on. */
void device_say_refused(struct text *text, const struct stats_file *record, size_t index) {
    const struct vramgc_device_stats *s = &record->file->devices[index].stats;
    uint64_t went_on = 0;
    for (size_t i = 0; i < record->refusal_count; i++)
        went_on += record->refusals[i]->device == index && !record->refusals[i]->granted &&
                   record->refusals[i]->reported == VRAMGC_WENT_ON;
    text_format(text, "requests refused: %s; out of memory in PyTorch: %s",
                show_count(s->refusals).text,
                show_ooms(record->file, minus_u64(s->ooms, went_on)).text);
    if (went_on)
        text_format(text, "; the work went on without: %s", show_count(went_on).text);
}

static void write_refused(FILE *out, const struct stats_file *record, size_t index, bool all) {
    const struct vramgc_device_stats *s = &record->file->devices[index].stats;
    char line[REFUSED_WORDS];
    struct text text = TEXT_IN(line);
    device_say_refused(&text, record, index);
    if (all || s->refusals || s->ooms)
        summary_line(out, "%s", line);
}

/* More than nearly as much. */
static bool says_much(struct derived ratio) {
    const double least = 1.05;
    return ratio.known && ratio.value >= least;
}

static void write_ratios(FILE *out, const struct vramgc_device *device, bool all) {
    struct derived time = derived_figure(DERIVED_held_over_live_time, device);
    struct derived peak = derived_figure(DERIVED_held_over_live_peak, device);
    struct derived used = derived_figure(DERIVED_utilisation_peak_percent, device);
    char average[64] = "";
    if (time.known)
        snprintf(average, sizeof average, ", %s on average", show_real(true, time.value, 2).text);
    if (peak.known && (all || says_much(peak) || says_much(time)))
        summary_line(out, "PyTorch held for each byte of tensors: %s at the peaks%s",
                     show_real(true, peak.value, 2).text, average);
    if (used.known)
        summary_line(out, "at most %s %% of the card used", show_real(true, used.value, 0).text);
}

/* PyTorch maps a request piece by piece and finds only at the last that the card is full. What else
 * is held and in no segment waits in flush's own cache, which a full card does not have. */
static void write_pieces(FILE *out, const struct vramgc_file *file,
                         const struct vramgc_device *device) {
    const double full_percent = 95;
    const uint64_t least_bytes = 64 * MEBIBYTE;
    const struct vramgc_device_stats *s = &device->stats;
    struct derived used = derived_figure(DERIVED_utilisation_peak_percent, device);
    uint64_t pieces = minus_u64(minus_u64(s->held_bytes.peak, s->reserved_bytes.peak),
                                max_u64(s->other_bytes.peak, s->pool_bytes.peak));
    if (stats_file_is_expandable(file) && !s->page_bytes.peak && s->refusals > 0 && used.known &&
        used.value >= full_percent && pieces >= least_bytes)
        summary_line(out,
                     "%s of the peak was for a request that did not fit, and went back at "
                     "once",
                     show_bytes(pieces).text);
}

/* A request that the second call served is not among those refused: the program saw no refusal. The
 * reclaims below say "refused" all the same, so say what became of it. Of those that the file kept.
 */
static uint64_t reclaims_for_refused(const struct stats_file *record, size_t index) {
    uint64_t count = 0;
    for (size_t i = 0; i < record->action_count; i++) {
        const struct vramgc_action *action = record->actions[i];
        count +=
            action->device == index && action->reason == VRAMGC_REASON_REFUSED && !action->observed;
    }
    return count;
}

/* Where it was never used nothing is said. */
static void write_rare(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device_stats *s = &record->file->devices[index].stats;
    uint64_t reclaims = reclaims_for_refused(record, index);
    if (reclaims > 0)
        summary_line(out, "vramgc gave memory back and asked the driver again: %s",
                     show_count(reclaims).text);
    if (s->refused_block_bytes > 0)
        summary_line(out, "PyTorch counts %s as allocated that never got memory",
                     show_bytes(s->refused_block_bytes).text);
    if (s->spilled_bytes.peak > 0)
        summary_line(out, "up to %s of live memory lay in the host, for %s in all",
                     show_bytes(s->spilled_bytes.peak).text, show_time(s->spilled_ns).text);
}

void device_table_write(FILE *out, const struct stats_file *record, size_t index, bool all) {
    const struct vramgc_device *device = &record->file->devices[index];
    struct device_table table;
    device_rows(record, index, &table);
    fputc('\n', out);
    size_t cut = bytes_of_columns(device->name, 48);
    summary_line(out, "GPU %zu  %.*s  %s", index, (int)cut, device->name, device->bus_id);
    write_device_row(out, &table, "", "peak", table.went_on ? "at the refusal" : "at the OOM",
                     table.last);
    write_device_rows(out, &table, all);
    write_pieces(out, record->file, device);
    if (*table.gone)
        summary_line(out, "%s", table.gone);
    write_ratios(out, device, all);
    if (all)
        write_driver_calls(out, &device->stats);
    write_refused(out, record, index, all);
    write_rare(out, record, index);
    graph_write(out, record, device, index);
    graph_who(out, record, device, false);
}
