/* host_block.c: see host_block.h. It must stay short: who reads a report asks for the card. */
#include "show/host_block.h"
#include "base/base.h"
#include "read/derived.h"
#include "read/units.h"
#include "show/summary_lines.h"

#include <string.h>

/* PyTorch alone, imported and with a tensor on the device, has 0.4 GiB. */
#define LEAST_BYTES ((uint64_t)1 << 30)

/* ComfyUI has some bytes page-locked: not worth a word. */
#define WORTH_A_WORD_BYTES MEBIBYTE

#define FIGURE(name, help, none_is_0)                                                              \
    { #name, help, offsetof(struct vramgc_host_look, name), none_is_0 }
const struct host_figure host_figures[HOST_FIGURES] = {
    FIGURE(anon_bytes, "resident and of no file", false),
    FIGURE(shared_bytes, "resident and shared, as of /dev/shm", false),
    FIGURE(file_bytes, "resident of files that are mapped; Linux takes it back", false),
    FIGURE(swap_bytes, "swapped out", false),
    FIGURE(limit_bytes, "least limit of its control group and of those that it is in", true),
    FIGURE(group_bytes, "what counts against that, cached files among it", true),
    FIGURE(total_bytes, "of the machine", true),
    FIGURE(available_bytes, "of the machine, to be had without swapping", true),
};
#undef FIGURE

static struct vramgc_gauge pinned_of(const struct vramgc_file *file) {
    struct vramgc_gauge sum = {0, 0};
    for (size_t i = 0; i < file->device_count; i++) {
        const struct vramgc_gauge *pinned = &file->devices[i].stats.pinned_bytes;
        sum.current += pinned->current;
        sum.peak = max_u64(sum.peak, pinned->peak); /* each at its own time: no sum */
    }
    return sum;
}

static void say_given_back(struct text *text, const struct vramgc_file *file) {
    uint64_t heap = file->process.host_released_bytes, pinned = file->process.pinned_released_bytes;
    uint64_t unused = file->process.host_unused_bytes;
    bool of_heap = heap >= WORTH_A_WORD_BYTES, of_pinned = pinned >= WORTH_A_WORD_BYTES;
    if (unused >= WORTH_A_WORD_BYTES)
        text_format(text, " Without observe vramgc would have given back about %s by %s.",
                    show_bytes(unused).text, file->host.call);
    if (!of_heap && !of_pinned)
        return;
    text_add(text, " vramgc gave back ");
    if (of_heap)
        text_format(text, "%s by %s", show_bytes(heap).text,
                    *file->host.call ? file->host.call : "its allocator");
    if (of_pinned)
        text_format(text, "%s%s by torch._C._host_emptyCache", of_heap ? ", " : "",
                    show_bytes(pinned).text);
    text_add(text, ".");
}

static void say_from_to(struct text *text, const char *of, const struct vramgc_gauge *gauge,
                        const struct stats_file *record) {
    text_format(text, "%s%s %s at the peak, %s %s.", text->length ? " " : "", of,
                show_bytes(gauge->peak).text, show_beside(gauge->current).text,
                record->state == PROCESS_RUNNING ? "now" : "at the end");
}

void host_words(struct text *text, const struct stats_file *record) {
    const struct vramgc_host *host = &record->file->host;
    struct vramgc_gauge ram = {ram_bytes(&host->latest), ram_bytes(&host->peak)};
    struct vramgc_gauge pinned = pinned_of(record->file);
    if (max_u64(ram.peak, pinned.peak) < LEAST_BYTES)
        return;
    if (host->latest.time_ns)
        say_from_to(text, "RAM of the program:", &ram, record);
    uint64_t in_use_bytes =
        min_u64(host->in_use_bytes, ram.current); /* some of it may lie untouched */
    if (in_use_bytes >= LEAST_BYTES)
        text_format(text, " When it last rested %s of it were in use: no call gives that back.",
                    show_bytes(in_use_bytes).text);
    if (host->peak.swap_bytes)
        text_format(text, " Swapped out at the peak: %s.", show_bytes(host->peak.swap_bytes).text);
    if (pinned.peak >= WORTH_A_WORD_BYTES)
        say_from_to(text, "Page-locked:", &pinned, record);
    say_given_back(text, record->file);
}

void host_block(FILE *out, const struct stats_file *record) {
    char line[HOST_WORDS];
    struct text text = TEXT_IN(line);
    host_words(&text, record);
    if (!text.length)
        return;
    fputc('\n', out);
    summary_wrapped(out, "HOST", line);
}

uint64_t host_figure(const struct host_figure *figure, const struct vramgc_host_look *look) {
    uint64_t value;
    memcpy(&value, (const char *)look + figure->offset, sizeof value);
    return value;
}

static void write_look(struct emit *emit, const char *name, const char *help,
                       const struct vramgc_host_look *look) {
    bool known = look->time_ns > 0;
    emit_open(emit, name, help);
    emit_number_if(emit, "time_ns", UNIT_NS, "since the start of the record", known, look->time_ns);
    for (size_t i = 0; i < HOST_FIGURES; i++) {
        const struct host_figure *figure = &host_figures[i];
        uint64_t value = host_figure(figure, look);
        emit_number_if(emit, figure->name, UNIT_BYTES, figure->help,
                       known && (value || !figure->none_is_0), value);
    }
    emit_close(emit);
}

void host_fields(struct emit *emit, const struct vramgc_host *host) {
    static const char *const lack[] = {
        [VRAMGC_LACK_NONE] = "none", [VRAMGC_LACK_KILLED] = "killed"};
    emit_open(emit, "host", "what it had of the host's memory; looked at once a second");
    write_look(emit, "latest", "when last looked at", &host->latest);
    write_look(emit, "at_peak", "when it had most, what was swapped with it and files without",
               &host->peak);
    emit_number_if(emit, "in_use_bytes", UNIT_BYTES,
                   "what its allocator had given out when the program last rested",
                   host->in_use_bytes > 0, host->in_use_bytes);
    emit_text(emit, "after_latest",
              "killed: after that Linux ended a process of its control group for lack of memory; "
              "none: it did not; null: not known",
              host->lack < ARRAY_LENGTH(lack) ? lack[host->lack] : NULL);
    emit_text(emit, "call", "by which its allocator gave memory back; null: never", host->call);
    emit_close(emit);
}
