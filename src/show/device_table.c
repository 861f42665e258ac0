/* device_table.c: see device_table.h. It shows figures and computes none; those come from
 * derived.h. Of the moment of an out-of-memory it shows what the refusal tells. */
#include "show/device_table.h"
#include "show/graph.h"
#include "show/summary_lines.h"
#include "read/derived.h"
#include "base/base.h"

#include <string.h>

/* Of the requests for memory of the device that were not granted; NULL: there is none. */
static const struct vramgc_refusal *latest_refusal(const struct stats_file *record, size_t index) {
    const struct vramgc_refusal *latest = NULL;
    for (size_t i = 0; i < record->refusal_count; i++) {
        const struct vramgc_refusal *refusal = record->refusals[i];
        if (refusal->device == index && !refusal->granted && refusal->cause != VRAMGC_CAUSE_HOST)
            latest = refusal_to_tell(latest, refusal);
    }
    return latest;
}

static void add_device_row(struct device_table *table, enum row_group group, const char *label,
                           struct figure peak, struct figure then, struct figure last) {
    if (table->count == DEVICE_ROWS)
        return;
    struct device_row *row = &table->rows[table->count++];
    *row = (struct device_row){.group = group, .peak = peak, .then = then, .last = last};
    text_copy(row->label, sizeof row->label, label);
}

static struct division division_at_refusal(const struct vramgc_refusal *r) {
    uint64_t used = r->held_bytes + r->free_bytes;
    return (struct division){r->total_bytes > 0, r->held_bytes, minus_u64(r->total_bytes, used),
                             r->free_bytes, r->total_bytes};
}

enum { HELD, OTHERS, FREE, PARTS }; /* in the order of the rows */

static void show_division(struct figure figures[PARTS], struct division d, size_t kept) {
    const uint64_t parts[PARTS] = {d.held_bytes, d.others_bytes, d.free_bytes};
    figures[HELD] = show_bytes(d.held_bytes);
    figures[OTHERS] = figures[FREE] = show_known(false, 0);
    if (d.known)
        show_parts(parts, figures, PARTS, kept);
}

/* A cap that came while the program ran may be less than the program had. */
static struct figure show_card(struct division d) {
    return show_known(d.total_bytes > 0 && d.held_bytes <= d.total_bytes, d.total_bytes);
}

/* The verdict has what was held at the peak, and what was free at the out-of-memory. */
static void add_division(struct device_table *table, const struct vramgc_device *device,
                         const struct vramgc_refusal *refusal, struct division end) {
    static const char *const names[PARTS] = {"held by this program",
                                             "+ held by others and the driver", "+ free"};
    struct division at_oom = refusal ? division_at_refusal(refusal) : (struct division){0};
    struct division at_peak = division_at_peak(device);
    struct figure peak[PARTS], then[PARTS], last[PARTS];
    show_division(peak, at_peak, HELD);
    show_division(then, at_oom, FREE);
    show_division(last, end, HELD);
    for (size_t i = 0; i < PARTS; i++)
        add_device_row(table, ROWS_OF_CARD, names[i], peak[i], then[i], last[i]);
    add_device_row(table, ROWS_OF_CARD, "= card", show_card(at_peak), show_card(at_oom),
                   show_card(end));
}

/* A gauge of stats.def; each at its own highest moment. */
static void add_gauge(struct device_table *table, const char *label, enum unit unit,
                      struct vramgc_gauge gauge, struct figure then) {
    add_device_row(table, ROWS_OF_ALLOCATOR, label, show_unit(unit, gauge.peak), then,
                   show_unit(unit, gauge.current));
}

/* The row that was added last. */
static void mark_detail(struct device_table *table, bool is_detail) {
    table->rows[table->count - 1].is_detail = is_detail;
}

/* In mode compact what PyTorch has reserved is not memory: that is only behind what is live. What
 * idle pages there are beside it lies anywhere, or nowhere: they wait for PyTorch's next block.
 * Under cudaMallocAsync there are no segments, and our own pool reserves nothing for PyTorch. */
static void add_allocator(struct device_table *table, const struct vramgc_device_stats *s,
                          const struct vramgc_refusal *r) {
    bool paged = s->page_bytes.peak > 0;
    const struct figure unknown = show_known(false, 0);
    if (!paged || s->segments.peak > 0) {
        add_gauge(table, paged ? "reserved (addresses only)" : "reserved", UNIT_BYTES,
                  s->reserved_bytes, show_known(r, r ? r->reserved_bytes : 0));
        mark_detail(table, paged);
    }
    if (paged)
        add_gauge(table, "physical pages, used or cached", UNIT_BYTES, s->page_bytes, unknown);
    add_gauge(table, "allocated (live)", UNIT_BYTES, s->live_bytes,
              show_known(r, r ? r->allocated_bytes : 0));
    if (!paged && s->segments.peak > 0) { /* what lies in pools is not known block by block */
        add_gauge(table, "idle pages", UNIT_BYTES, s->idle_bytes,
                  show_known(r, r ? r->idle_bytes : 0));
        add_gauge(table, "releasable by empty_cache", UNIT_BYTES, s->releasable_bytes, unknown);
    }
    if (s->segments.peak > 0) {
        add_gauge(table, "segments", UNIT_COUNT, s->segments, unknown);
        mark_detail(table, true);
    }
}

/* Memory beside PyTorch's blocks has a line only where it amounts to something: PyTorch itself pins
 * a byte here and there. */
static void add_beside(struct device_table *table, const char *label, struct vramgc_gauge gauge,
                       struct figure then) {
    const uint64_t least_bytes = (uint64_t)1 << 20;
    if (gauge.peak >= least_bytes)
        add_device_row(table, ROWS_BESIDE, label, show_bytes(gauge.peak), then,
                       show_beside(gauge.current));
}

/* How much each had at the out-of-memory is not known. A long name is cut. */
static void add_libraries(struct device_table *table, const struct vramgc_file *file,
                          const struct vramgc_device *device, const struct vramgc_gauge *last) {
    enum { COLUMNS = 24 }; /* with what is before as wide as the longest other label */
    for (uint64_t i = 1; i < file->library_count; i++) {
        const char *name = library_name(file, i);
        TEXT_OVER(text, label, sizeof table->rows[0].label);
        if (!name || !library_shows(device, i) || !last[i].peak) /* it may have come later */
            continue;
        text_add(&text, library_is_aimdo(name) ? "of it: DynamicVRAM, " : "of it: ");
        text_add_n(&text, name, bytes_of_columns(name, COLUMNS));
        add_device_row(table, ROWS_BESIDE, label, show_bytes(last[i].peak), show_known(false, 0),
                       show_bytes(last[i].current));
    }
}

/* To who reads it as what is left the last column looks like a leak. */
static void say_gone(struct device_table *table, const struct stats_file *record, uint64_t held) {
    struct text text = TEXT_IN(table->gone);
    if (record->state != PROCESS_RUNNING && record->state != PROCESS_REPLACED && held > 0)
        text_add(&text, "all that the program held was freed when it ended");
}

static bool device_went_on(const struct stats_file *record, size_t index) {
    const struct vramgc_refusal *refusal = latest_refusal(record, index);
    return refusal && refusal->reported == VRAMGC_WENT_ON;
}

const char *device_then(const struct stats_file *record, size_t index) {
    return device_went_on(record, index) ? "at the refusal" : "at the out-of-memory";
}

void device_rows(const struct stats_file *record, size_t index, struct device_table *table) {
    const struct vramgc_device *device = &record->file->devices[index];
    const struct last_moment last = last_moment_of(device, record->state == PROCESS_RUNNING);
    const struct vramgc_device_stats *s = last.stats;
    const struct vramgc_refusal *r = latest_refusal(record, index);
    const struct figure unknown = show_known(false, 0);
    *table = (struct device_table){.has_refusal = r != NULL,
                                   .went_on = device_went_on(record, index),
                                   .last = last.name,
                                   .then = device_then(record, index)};
    say_gone(table, record, s->held_bytes.current);
    add_division(table, device, r, last.division);
    add_allocator(table, s, r);
    add_beside(table, "held by other libraries", s->other_bytes,
               show_known(r, r ? r->other_bytes : 0));
    add_libraries(table, record->file, device, last.of_libraries);
    add_beside(table, "stream-ordered pools", s->pool_bytes, unknown);
    add_beside(table, "managed", s->managed_bytes, unknown);
    add_beside(table, "pinned host memory", s->pinned_bytes, unknown);
}

/* ---- as text ---- */

static void write_device_row(FILE *out, const struct device_table *table, const char *label,
                             const char *peak, const char *then, const char *last) {
    if (table->has_refusal)
        summary_line(out, "%-33s %9s %20s %14s", label, peak, then, last);
    else
        summary_line(out, "%-33s %16s %14s", label, peak, last);
}

/* Parts that add up to the card have their sign in front. */
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
    TEXT_OVER(refused, line, REFUSED_WORDS);
    device_say_refused(&refused, record, index);
    if (all || device->stats.refusals || device->stats.ooms)
        summary_line(out, "%s", line);
    write_rare(out, record, index);
    graph_write(out, record, device, index);
    graph_who(out, record, device, false);
}

/* ---- whose its live memory was ---- */

/* The page is for people: five of them are most of the memory. */
enum { SHOWN = 5 };

static bool fits_columns(struct who_name name, size_t columns) {
    return !name.text[bytes_of_columns(name.text, columns)];
}

/* Of the site's `part` as much of its beginning stays as makes the name fit, but `least` columns.
 */
static struct who_name shorten(struct vramgc_site *site, char part[64], size_t least,
                               size_t columns) {
    char whole[64];
    text_copy(whole, sizeof whole, part);
    struct who_name name = who_name(site);
    for (size_t kept = columns; !fits_columns(name, columns) && kept >= least; kept--) {
        struct text text = text_in(part, sizeof whole);
        text_add_n(&text, whole, bytes_of_columns(whole, kept));
        text_add(&text, "..");
        name = who_name(site);
    }
    return name;
}

/* The line number stays: one of which the end is missing would be taken for another. */
struct who_name summary_who_name(const struct vramgc_site *site, size_t columns) {
    enum { LEAST = 12 };
    struct who_name name = who_name(site);
    if (!site || fits_columns(name, columns))
        return name;
    struct vramgc_site shorter = *site;
    const char *slash = strrchr(site->file, '/');
    if (slash)
        text_copy(shorter.file, sizeof shorter.file, slash + 1);
    shorten(&shorter, shorter.function, LEAST, columns);
    return shorten(&shorter, shorter.file, 1, columns);
}

enum { OOM_COLUMNS = 10, REFUSAL_COLUMNS = 12, PHASE_COLUMNS = 12 };

/* Of the columns of the moment of an out-of-memory there are none without one. */
static void who_cells(FILE *out, const char *heading, const char *peak, int columns,
                      const char *then, const char *phase, const char *name) {
    summary_line(out, "%-9s%9s%*s  %-*s %s", heading, peak, columns, columns ? then : "",
                 PHASE_COLUMNS, phase, name);
}

/* A phase of the user's own may be wider. more: the row is of so many functions. */
static void write_who_row(FILE *out, const struct who_row *row, size_t more, int columns) {
    enum { BEFORE = 21 };
    char name[sizeof((struct who_name *)0)->text];
    struct figure peak = show_known(row->peak_bytes > 0, row->peak_bytes);
    struct figure then = show_known(row->oom_bytes > 0, row->oom_bytes);
    const char *phase = row->site ? row->site->phase : "";
    size_t before = BEFORE + max_u64(strlen(phase), PHASE_COLUMNS) + (size_t)columns;
    if (more)
        snprintf(name, sizeof name, "%zu more function%s (report --all)", more,
                 more == 1 ? "" : "s");
    else
        text_copy(name, sizeof name, summary_who_name(row->site, SUMMARY_WIDTH - before).text);
    if (row->peak_bytes > 0 || row->oom_bytes > 0)
        who_cells(out, "", peak.text, columns, then.text, phase, name);
}

static uint64_t most_of(const struct who_row *row) {
    return row->site ? max_u64(row->peak_bytes, row->oom_bytes) : 0;
}

/* Who had most of the card when memory ran out may have had little at the peak. */
static void sort_owners(struct who_row *rows, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct who_row row = rows[i];
        size_t to = i;
        for (; to > 0 && most_of(&rows[to - 1]) < most_of(&row); to--)
            rows[to] = rows[to - 1];
        rows[to] = row;
    }
}

/* The last two rows have all that are not shown, and what nobody is known by name for. */
static void who_of_device(FILE *out, const struct stats_file *record, size_t index, size_t most) {
    const struct vramgc_device *device = &record->file->devices[index];
    struct who_row rows[WHO_ROWS], rest = {0};
    size_t count = who_rows(record->file, device, rows), shown = 0;
    bool went_on = device_went_on(record, index);
    int columns = !who_has_oom(device) ? 0 : went_on ? REFUSAL_COLUMNS : OOM_COLUMNS;
    if (count == 0)
        return;
    sort_owners(rows, count);
    fputc('\n', out);
    who_cells(out, "WHO", "at peak", columns, went_on ? "at refusal" : "at OOM", "phase",
              "Python function (where it begins)");
    for (; shown < min_u64(most, count - 1); shown++)
        write_who_row(out, &rows[shown], 0, columns);
    for (size_t i = shown; i + 1 < count; i++) {
        rest.peak_bytes += rows[i].peak_bytes;
        rest.oom_bytes += rows[i].oom_bytes;
    }
    write_who_row(out, &rest, count - 1 - shown, columns);
    write_who_row(out, &rows[count - 1], 0, columns);
    if (most == SIZE_MAX) {
        fputc('\n', out);
        graph_who(out, record, device, true);
    }
}

/* comfy-aimdo, ComfyUI's DynamicVRAM, tells only how many there are. */
static void write_rogues(FILE *out, const struct vramgc_file *file, size_t most) {
    const char *heading = "\nROGUES   breaks  Python function (where it begins), of a step\n";
    for (uint64_t i = 0; i < file->site_count && most > 0; i++) {
        const struct vramgc_site *site = &file->sites[i];
        if (!site->rogues && !site->breaks)
            continue;
        most--;
        fputs(heading, out);
        heading = "";
        summary_line(out, "%6u %8u  %s", site->rogues, site->breaks,
                     summary_who_name(site, SUMMARY_WIDTH - 17).text);
    }
}

void summary_who(FILE *out, const struct stats_file *record, size_t most_rows) {
    for (size_t i = 0; i < record->file->device_count; i++)
        who_of_device(out, record, i, most_rows == SIZE_MAX ? SIZE_MAX : SHOWN);
    write_rogues(out, record->file, max_u64(most_rows, 20)); /* each is to be found */
}
