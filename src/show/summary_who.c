/* summary_who.c: see summary_who.h. It shows figures and computes none but what it leaves out. */
#include "show/summary_who.h"
#include "show/device_table.h"
#include "show/graph.h"
#include "show/summary_lines.h"
#include "read/units.h"
#include "base/base.h"
#include "base/text.h"

#include <string.h>

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

/* A phase of the user's own may be wider. */
static void write_who_row(FILE *out, const struct who_row *row, int columns) {
    enum { BEFORE = 21 };
    struct figure peak = show_known(row->peak_bytes > 0, row->peak_bytes);
    struct figure then = show_known(row->oom_bytes > 0, row->oom_bytes);
    const char *phase = row->site ? row->site->phase : "";
    size_t before = BEFORE + max_u64(strlen(phase), PHASE_COLUMNS) + (size_t)columns;
    who_cells(out, "", peak.text, columns, then.text, phase,
              summary_who_name(row->site, SUMMARY_WIDTH - before).text);
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

/* The last row has all that are not shown. */
static void who_of_device(FILE *out, const struct stats_file *record, size_t index, size_t most) {
    const struct vramgc_device *device = &record->file->devices[index];
    struct who_row rows[WHO_ROWS], rest = {0};
    size_t count = who_rows(record->file, device, rows);
    bool went_on = device_went_on(record, index);
    int columns = !who_has_oom(device) ? 0 : went_on ? REFUSAL_COLUMNS : OOM_COLUMNS;
    if (count == 0)
        return;
    sort_owners(rows, count);
    fputc('\n', out);
    who_cells(out, "WHO", "live peak", columns, went_on ? "at refusal" : "at OOM", "phase",
              "Python function (where it begins)");
    for (size_t i = 0; i < count; i++) {
        bool shown = i < most && rows[i].site;
        rest.peak_bytes += shown ? 0 : rows[i].peak_bytes;
        rest.oom_bytes += shown ? 0 : rows[i].oom_bytes;
        if (shown)
            write_who_row(out, &rows[i], columns);
    }
    if (rest.peak_bytes > 0 || rest.oom_bytes > 0)
        write_who_row(out, &rest, columns);
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
