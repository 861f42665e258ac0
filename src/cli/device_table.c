/* device_table.c: see device_table.h. It shows figures and computes none; those come from
 * derived.h. Of the moment of an out-of-memory it shows what the refusal tells. */
#include "cli/device_table.h"
#include "cli/derived.h"
#include "cli/graph.h"
#include "cli/summary_lines.h"
#include "cli/units.h"
#include "base/base.h"

#include <string.h>

/* refusal: NULL without an out-of-memory; then there is no such column. */
struct table {
    FILE *out;
    const struct vramgc_device *device;
    const struct vramgc_refusal *refusal;
};

const struct vramgc_refusal *device_latest_refusal(const struct stats_file *record, size_t index) {
    for (size_t i = record->refusal_count; i-- > 0;) {
        const struct vramgc_refusal *refusal = record->refusals[i];
        if (refusal->device == index && !refusal->granted && refusal->cause != VRAMGC_REFUSAL_HOST)
            return refusal;
    }
    return NULL;
}

const char *device_last_moment(const struct stats_file *record) {
    return record->state == PROCESS_RUNNING ? "now" : "before exit";
}

static void write_row(const struct table *table, const char *label, const char *peak,
                      const char *then, const char *last) {
    if (table->refusal)
        summary_line(table->out, "%-33s %9s %20s %14s", label, peak, then, last);
    else
        summary_line(table->out, "%-33s %16s %14s", label, peak, last);
}

static struct division division_of(const struct vramgc_refusal *r) {
    uint64_t used = r->held_bytes + r->free_bytes;
    return (struct division){r->total_bytes > 0, r->held_bytes, minus_u64(r->total_bytes, used),
                             r->free_bytes, r->total_bytes};
}

static void write_division(const struct table *table) {
    struct division peak = division_at_peak(table->device), end = division_at_end(table->device),
                    then = {0};
    if (table->refusal)
        then = division_of(table->refusal);
    write_row(table, "  held by this program", show_bytes(peak.held_bytes).text,
              show_bytes(then.held_bytes).text, show_bytes(end.held_bytes).text);
    write_row(table, "+ held by others and the driver",
              show_known(peak.known, peak.others_bytes).text,
              show_known(then.known, then.others_bytes).text,
              show_known(end.known, end.others_bytes).text);
    write_row(table, "+ free", show_known(peak.known, peak.free_bytes).text,
              show_known(then.known, then.free_bytes).text,
              show_known(end.known, end.free_bytes).text);
    uint64_t total = table->device->total_bytes;
    struct figure card = show_known(total > 0, total);
    write_row(table, "= card", card.text, show_known(then.known, then.total_bytes).text, card.text);
}

/* A gauge of stats.def; each at its own highest moment. */
static void write_gauge(const struct table *table, const char *label, enum unit unit,
                        struct vramgc_gauge gauge, struct figure then) {
    write_row(table, label, show_unit(unit, gauge.peak).text, then.text,
              show_unit(unit, gauge.current).text);
}

/* In mode compact what PyTorch has reserved is not memory: that is only behind what is live. What
 * idle pages there are beside it lies anywhere, or nowhere: they wait for PyTorch's next block. */
static void write_allocator(const struct table *table) {
    const struct vramgc_device_stats *s = &table->device->stats;
    const struct vramgc_refusal *r = table->refusal;
    const struct figure unknown = show_real(false, 0, 0);
    bool paged = s->page_bytes.peak > 0;
    summary_line(table->out, "PyTorch's allocator, each figure at its own peak");
    write_gauge(table, paged ? "  reserved (addresses only)" : "  reserved", UNIT_BYTES,
                s->reserved_bytes, show_known(r, r ? r->reserved_bytes : 0));
    if (paged)
        write_gauge(table, "  physical pages, used or cached", UNIT_BYTES, s->page_bytes, unknown);
    write_gauge(table, "  allocated (live)", UNIT_BYTES, s->live_bytes,
                show_known(r, r ? r->allocated_bytes : 0));
    if (!paged && s->segments.peak > 0) { /* what lies in pools is not known block by block */
        write_gauge(table, "  idle pages", UNIT_BYTES, s->idle_bytes,
                    show_known(r, r ? r->idle_bytes : 0));
        write_gauge(table, "  releasable by empty_cache", UNIT_BYTES, s->releasable_bytes, unknown);
    }
    write_gauge(table, "  segments", UNIT_COUNT, s->segments, unknown);
}

/* What beside PyTorch's blocks has a line only where it amounts to something: PyTorch itself pins a
 * byte here and there. */
static void write_beside(const struct table *table, const char *label, struct vramgc_gauge gauge,
                         struct figure then) {
    const uint64_t least_bytes = (uint64_t)1 << 20;
    if (gauge.peak >= least_bytes)
        write_gauge(table, label, UNIT_BYTES, gauge, then);
}

static void write_gauges(const struct table *table) {
    const struct vramgc_device_stats *s = &table->device->stats;
    const struct vramgc_refusal *r = table->refusal;
    const struct figure unknown = show_real(false, 0, 0);
    write_allocator(table);
    write_beside(table, "  held by other libraries", s->other_bytes,
                 show_known(r, r ? r->other_bytes : 0));
    write_beside(table, "  stream-ordered pools", s->pool_bytes, unknown);
    write_beside(table, "  managed", s->managed_bytes, unknown);
    write_beside(table, "  pinned host memory", s->pinned_bytes, unknown);
}

/* With cudaMallocAsync PyTorch itself counts none, and its hooks tell of none. */
static struct figure show_ooms(const struct vramgc_file *file, uint64_t ooms) {
    bool is_known = ooms > 0 || !strstr(file->alloc_conf, "cudaMallocAsync");
    return is_known ? show_count(ooms) : show_real(false, 0, 0);
}

static void write_ratios(FILE *out, const struct vramgc_file *file,
                         const struct vramgc_device *device) {
    struct derived mean = derived_figure(DERIVED_held_over_live_mean, device);
    struct derived weighted = derived_figure(DERIVED_held_over_live_weighted, device);
    struct derived peak = derived_figure(DERIVED_held_over_live_peak, device);
    struct derived used = derived_figure(DERIVED_utilisation_peak_percent, device);
    summary_line(out, "held / live: %s at the peaks, %s on average, %s mean of block events",
                 show_real(peak.known, peak.value, 2).text,
                 show_real(weighted.known, weighted.value, 2).text,
                 show_real(mean.known, mean.value, 2).text);
    summary_line(out, "at most %s %% of the card used", show_real(used.known, used.value, 0).text);
    const struct vramgc_device_stats *s = &device->stats;
    summary_line(out, "driver calls: %s; requests refused: %s; out of memory in PyTorch: %s",
                 show_count(s->driver_calls).text, show_count(s->refusals).text,
                 show_ooms(file, s->ooms).text);
    if (s->page_bytes.peak > 0) {
        summary_line(out, "2 MiB pages: %s mapped, %s unmapped; waits for the GPU: %s",
                     show_count(s->page_maps).text, show_count(s->page_unmaps).text,
                     show_count(s->page_waits).text);
        summary_line(out, "driver calls by vramgc for pages: %s", show_count(s->page_calls).text);
    }
}

/* Where it was never used nothing is said. */
static void write_rare(FILE *out, const struct vramgc_device_stats *s) {
    if (s->refused_block_bytes > 0)
        summary_line(out, "PyTorch counts %s as allocated that never got memory",
                     show_bytes(s->refused_block_bytes).text);
    if (s->spilled_bytes.peak > 0)
        summary_line(out, "up to %s of live memory lay in the host, for %s in all",
                     show_bytes(s->spilled_bytes.peak).text, show_time(s->spilled_ns).text);
}

void device_table_write(FILE *out, const struct stats_file *record, size_t index) {
    const struct vramgc_device *device = &record->file->devices[index];
    const struct table table = {out, device, device_latest_refusal(record, index)};
    fputc('\n', out);
    size_t cut = bytes_of_columns(device->name, 48);
    summary_line(out, "GPU %zu  %.*s  %s", index, (int)cut, device->name, device->bus_id);
    write_row(&table, "", "peak", "at the out-of-memory", device_last_moment(record));
    write_division(&table);
    write_gauges(&table);
    write_ratios(out, record->file, device);
    write_rare(out, &device->stats);
    graph_write(out, record, device, index);
}
