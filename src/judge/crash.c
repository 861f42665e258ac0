/* crash.c: see crash.h. It must not say that memory was why: a signal does not tell. */
#include "judge/crash.h"
#include "read/derived.h"
#include "read/units.h"
#include "base/base.h"

#include <signal.h>

/* Of page-locked memory that is worth a word, as of idle memory (VERDICT_IDLE_BYTES). */
#define LEAST_PINNED_BYTES (512 * MEBIBYTE)

bool is_crash(const struct stats_file *record) {
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGBUS,
                                  SIGILL,  SIGFPE,  SIGTRAP, SIGSYS};
    for (size_t i = 0; record->state == PROCESS_KILLED && i < ARRAY_LENGTH(signals); i++)
        if (record->signal == signals[i])
            return true;
    return false;
}

void crash_say(struct text *text, const struct stats_file *crashed) {
    if (!crashed)
        return;
    bool seen = crashed->state == PROCESS_KILLED;
    text_format(text, "%s%s at %s: %s.", text->length ? " " : "",
                seen ? "CRASHED" : "Ended without a word",
                crashed->elapsed_ns ? show_clock(crashed->elapsed_ns).text : "an unknown moment",
                seen ? show_signal(crashed->signal).text
                     : "killed, or crashed. Only what started it saw which");
}

/* What the program itself started it may have ended, as Python's terminate() does. */
bool has_vanished(const struct stats_file *record, struct stats_file *const *records,
                  size_t count) {
    const struct vramgc_file *file = record->file;
    bool told = file->stop_asked || file->python_ended_ns;
    for (size_t i = 0; i < count; i++)
        told = told || records[i]->file->pid == file->parent_pid;
    return record->state == PROCESS_VANISHED && !told;
}

static void say_ram(struct text *text, const struct vramgc_host_look *look) {
    if (!look->time_ns)
        return;
    text_format(text, " At %s the program had %s of RAM.", show_clock(look->time_ns).text,
                show_bytes(ram_bytes(look)).text);
    if (look->swap_bytes)
        text_format(text, " %s more were swapped out.", show_bytes(look->swap_bytes).text);
    if (look->limit_bytes && look->limit_bytes < look->total_bytes)
        text_format(text, " The limit of its control group was %s. %s counted against that.",
                    show_bytes(look->limit_bytes).text, show_bytes(look->group_bytes).text);
    else if (look->total_bytes)
        text_format(text, " The machine had %s left.", show_bytes(look->available_bytes).text);
}

/* Linux sends it by itself where RAM runs out. */
static void say_sender(struct text *text, uint64_t lack) {
    if (lack == VRAMGC_LACK_KILLED)
        text_add(text, "Linux ended a process of its control group for lack of RAM: `dmesg` tells "
                       "which.");
    else if (lack == VRAMGC_LACK_NONE)
        text_add(text, "Linux did not end it for lack of RAM. Something else sent SIGKILL: "
                       "earlyoom, systemd-oomd or a user.");
    else
        text_add(text, "SIGKILL often comes from the kernel, for lack of RAM: `dmesg` tells.");
}

void crash_say_cause(struct text *text, const struct stats_file *crashed) {
    double pinned = 0;
    if (!crashed || (crashed->signal != SIGKILL &&
                     (crashed->signal || crashed->file->host.lack != VRAMGC_LACK_KILLED)))
        return;
    for (size_t i = 0; i < crashed->file->device_count; i++)
        pinned += (double)crashed->file->devices[i].stats.pinned_bytes.current;
    say_sender(text, crashed->file->host.lack);
    say_ram(text, &crashed->file->host.latest);
    if (pinned >= (double)LEAST_PINNED_BYTES)
        text_format(text, " The program had %s of RAM page-locked.",
                    show_bytes(to_u64(pinned)).text);
}
