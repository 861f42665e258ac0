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

static void say_moment(struct text *text, const struct stats_file *record) {
    text_add(text, record->elapsed_ns ? show_clock(record->elapsed_ns).text : "an unknown moment");
}

void crash_say(struct text *text, const struct stats_file *crashed) {
    if (!crashed)
        return;
    text_format(text, "%sCRASHED at ", text->length ? " " : "");
    say_moment(text, crashed);
    text_format(text, ": %s.", show_signal(crashed->signal).text);
}

/* Such a child may have ended as Python's forked workers do, by os._exit. */
static bool is_child(const struct stats_file *record, struct stats_file *const *records,
                     size_t count) {
    for (size_t i = 0; i < count; i++)
        if (records[i]->file->pid == record->file->parent_pid)
            return true;
    return false;
}

bool has_vanished(const struct stats_file *record, struct stats_file *const *records,
                  size_t count) {
    return record->state == PROCESS_VANISHED && !is_child(record, records, count);
}

void crash_say_vanished(struct text *text, const struct stats_file *vanished) {
    if (!vanished)
        return;
    text_add(text, "Ended without a word at ");
    say_moment(text, vanished);
    text_add(text, ": killed, crashed, or left by os._exit; nobody was there to see which.");
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

#define LINUX_KILLED                                                                               \
    "Linux ended a process of its control group for lack of RAM: `dmesg` tells which."

/* Linux sends it by itself where RAM runs out. */
static void say_sender(struct text *text, uint64_t lack) {
    if (lack == VRAMGC_LACK_KILLED)
        text_add(text, LINUX_KILLED);
    else if (lack == VRAMGC_LACK_NONE)
        text_add(text, "Linux did not end it for lack of RAM. Something else sent SIGKILL: "
                       "earlyoom, systemd-oomd or a user.");
    else
        text_add(text, "SIGKILL often comes from the kernel, for lack of RAM: `dmesg` tells.");
}

void crash_say_lack(struct text *text, const struct stats_file *vanished) {
    if (!vanished || vanished->file->host.lack != VRAMGC_LACK_KILLED)
        return;
    text_add(text, LINUX_KILLED);
    say_ram(text, &vanished->file->host.latest);
}

void crash_say_cause(struct text *text, const struct stats_file *crashed) {
    double pinned = 0;
    if (!crashed || crashed->signal != SIGKILL)
        return;
    for (size_t i = 0; i < crashed->file->device_count; i++)
        pinned += (double)crashed->file->devices[i].stats.pinned_bytes.current;
    say_sender(text, crashed->file->host.lack);
    say_ram(text, &crashed->file->host.latest);
    if (pinned >= (double)LEAST_PINNED_BYTES)
        text_format(text, " The program had %s of RAM page-locked.",
                    show_bytes(to_u64(pinned)).text);
}
