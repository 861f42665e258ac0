/* top_hints.c: see top_hints.h. A web UI that waits for its user does nothing, as one that hangs:
 * it must not call that a hang. */
#include "show/top_hints.h"
#include "judge/who.h"
#include "judge/tally.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"
#include "base/process_stat.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Idle memory is worth a word when it has stayed as long as the picture is wide. One kernel that
 * takes longer than the other is rare; vramgc's own thread looks twice a second (SLOWEST_STEP_NS),
 * and is stuck when it has not for so long. */
#define IDLE_NS   (60 * SECOND_NS)
#define BUSY_NS   (120 * SECOND_NS)
#define SILENT_NS (10 * SECOND_NS)
enum { BUSY_PERCENT = 90 };

/* A little is swapped out of any program in time. */
#define LEAST_SWAP (256 * MEBIBYTE)

/* Since when no block was taken or freed; 0: not known. */
static uint64_t rested_ns(const struct vramgc_file *file) {
    uint64_t worked_ns = 0;
    for (size_t i = 0; i < file->device_count; i++)
        worked_ns = max_u64(worked_ns, file->devices[i].worked_ns);
    return worked_ns ? minus_u64(clock_ns(), file->started_ns + worked_ns) : 0;
}

static struct text begin_hint(struct top_hint *out, size_t *count) {
    struct top_hint *hint = &out[(*count)++];
    *hint = (struct top_hint){""};
    return TEXT_IN(hint->text);
}

struct top_hint top_usual(const struct running_process *process) {
    const struct vramgc_file *file = process->record->file;
    const struct vramgc_host_look *look = &file->host.latest;
    struct top_hint hint = {""};
    struct text text = TEXT_IN(hint.text);
    if (file->parked == 1)
        return hint;
    if (look->time_ns && look->swap_bytes >= LEAST_SWAP)
        text_format(&text, "%s of its RAM swapped out", show_bytes(look->swap_bytes).text);
    if (!file->latest_site)
        return hint;
    uint64_t rest_ns = rested_ns(file);
    const struct vramgc_site *site = &file->sites[file->latest_site - 1];
    text_add(&text, text.length ? "; " : "");
    if (rest_ns >= SECOND_NS)
        text_format(&text, "at rest for %s; ", show_time(rest_ns / SECOND_NS * SECOND_NS).text);
    text_format(&text, "last took memory in %s%s%s", site->phase, *site->phase ? ": " : "",
                who_short_name(site).text);
    return hint;
}

static void say_idle(struct top_hint *out, size_t *count, const struct running_process *process,
                     const struct cards *cards, uint64_t rest_ns) {
    uint64_t idle = 0;
    for (size_t i = 0; i < cards->count; i++)
        for (size_t j = 0; j < cards->list[i].row_count; j++)
            if (cards->list[i].rows[j].process == process)
                idle += cards->list[i].rows[j].idle_bytes;
    if (rest_ns < IDLE_NS || idle < VERDICT_IDLE_BYTES)
        return;
    struct text text = begin_hint(out, count);
    text_format(&text, "%s idle for %s", show_bytes(idle).text,
                show_time(rest_ns / SECOND_NS * SECOND_NS).text);
    if (stats_file_setting_is(process->record, "lowvram", "0"))
        text_add(&text, "; `vramgc run --lowvram` would give it back");
}

/* What others gave, and what is left to them. */
static void say_sharing(struct top_hint *out, size_t *count, const struct stats_file *record) {
    struct text text = begin_hint(out, count);
    if (!shared_card_say_limits(&text, &record->file->limits))
        --*count;
    text = begin_hint(out, count);
    if (!shared_card_say_giver(&text, record->file))
        --*count;
}

/* One program alone on the card is what keeps it busy. */
static bool keeps_busy(const struct running_process *process, const struct cards *cards) {
    bool busy = false;
    for (size_t i = 0; i < cards->count; i++) {
        const struct card *card = &cards->list[i];
        busy = busy || (card->row_count == 1 && card->other_count == 0 &&
                        card->rows[0].process == process && card->sensors.known &&
                        card->sensors.busy_percent >= BUSY_PERCENT);
    }
    return busy;
}

static void say_hang(struct top_hint *out, size_t *count, const struct running_process *process,
                     const struct cards *cards, uint64_t rest_ns) {
    const struct vramgc_file *file = process->record->file;
    bool looks = file->latest_ns != file->started_ns; /* else no thread of ours could be started */
    uint64_t silent_ns = looks ? minus_u64(clock_ns(), file->latest_ns) : 0;
    bool stopped = process_stat(process->pid).state == 'T', busy = keeps_busy(process, cards);
    if (!stopped && silent_ns < SILENT_NS && !(busy && rest_ns >= BUSY_NS))
        return;
    struct text text = begin_hint(out, count);
    if (stopped)
        text_format(&text, "is stopped, and keeps its memory: `kill -CONT %llu` lets it go on",
                    (unsigned long long)process->pid);
    else if (silent_ns >= SILENT_NS)
        text_format(&text, "gives no sign for %s: stuck in the driver, or a busy machine",
                    show_time(silent_ns / SECOND_NS * SECOND_NS).text);
    else
        text_format(&text, "keeps the card busy, and made no tensor for %s: it may hang",
                    show_time(rest_ns / SECOND_NS * SECOND_NS).text);
}

/* In a container its numbers are others. */
static bool is_gone(const struct running_process *process, uint64_t key) {
    return key && process->pid == process->record->file->pid && !process_key_lives(key);
}

static void say_parked(struct top_hint *out, size_t *count, const struct running_process *process) {
    const struct vramgc_file *file = process->record->file;
    struct text text = begin_hint(out, count);
    bool alone = is_gone(process, file->parker);
    if (file->parked == 1)
        text_format(&text, "parked, with %s in RAM; ", show_bytes(held_on_all_cards(file)).text);
    else
        text_add(&text, "who parked or woke it was killed meanwhile; ");
    text_format(&text, "%s`vramgc wake %llu`%s", alone ? "nobody wakes it: " : "",
                (unsigned long long)process->pid, alone ? "" : " brings it back");
}

size_t top_hints(const struct running_process *process, const struct cards *cards,
                 struct top_hint out[TOP_HINTS]) {
    size_t count = 0;
    uint64_t rest_ns = rested_ns(process->record->file);
    uint64_t parked = process->record->file->parked;
    if (parked == 1 || is_gone(process, parked)) {
        say_parked(out, &count, process);
        return count;
    }
    say_idle(out, &count, process, cards, rest_ns);
    say_hang(out, &count, process, cards, rest_ns);
    say_sharing(out, &count, process->record);
    return count;
}
