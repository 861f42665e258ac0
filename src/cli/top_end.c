/* top_end.c: see top_end.h. It must send nothing that was not asked for just before. */
#include "cli/top_end.h"
#include "show/summary_lines.h"
#include "read/stats_file.h"
#include "base/process_stat.h"
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_own(uint64_t pid) {
    char path[40];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%llu", (unsigned long long)pid);
    return stat(path, &status) == 0 && status.st_uid == geteuid();
}

static void say(struct top_end *end, const char *words) {
    snprintf(end->said, sizeof end->said, "%llu %s", (unsigned long long)end->process.pid, words);
}

static const struct running_process *chosen_of(const struct top_view *view) {
    const struct running_process *chosen = NULL;
    for (size_t i = 0; i < view->running.count; i++)
        if (view->running.list[i].pid == view->chosen_pid)
            chosen = &view->running.list[i];
    return chosen;
}

static struct top_process process_of(const struct running_process *running) {
    return (struct top_process){running->pid, running->record->file->process_start};
}

static bool is_told(const struct top_end *end, struct top_process process) {
    bool told = false;
    for (size_t i = 0; i < end->told_count; i++)
        told = told ||
               (end->told[i].pid == process.pid && end->told[i].start_ticks == process.start_ticks);
    return told;
}

/* Without memory it gets SIGTERM again. */
static void note_told(struct top_end *end) {
    struct top_process *told = realloc(end->told, (end->told_count + 1) * sizeof *told);
    if (!told)
        return;
    end->told = told;
    end->told[end->told_count++] = end->process;
}

bool top_end_kills(const struct top_end *end, const struct top_view *view) {
    const struct running_process *chosen = chosen_of(view);
    return chosen && is_told(end, process_of(chosen));
}

void top_end_ask(struct top_end *end, const struct top_view *view) {
    const struct running_process *chosen = chosen_of(view);
    *end->said = 0;
    if (!chosen) {
        text_copy(end->said, sizeof end->said, "up, down: first choose which program ends");
        return;
    }
    struct text name = TEXT_IN(end->name);
    program_name(chosen->record->file, &name);
    end->process = process_of(chosen);
    end->kills = is_told(end, end->process);
    end->asks = is_own(end->process.pid);
    if (!end->asks)
        say(end, process_start_ticks(end->process.pid) ? "is another user's" : "has ended already");
}

static void say_failure(struct top_end *end, int error) {
    char words[96];
    snprintf(words, sizeof words, "cannot be ended: %s", strerror(error));
    say(end, error == ESRCH ? "has ended already" : words);
}

static void send_signal(struct top_end *end) {
    if (process_start_ticks(end->process.pid) != end->process.start_ticks) {
        say(end, "has ended already");
    } else if (kill((pid_t)end->process.pid, end->kills ? SIGKILL : SIGTERM) != 0) {
        say_failure(end, errno);
    } else if (end->kills) {
        say(end, "has got SIGKILL");
    } else {
        say(end, "has got SIGTERM");
        note_told(end);
    }
}

void top_end_take(struct top_end *end, int key) {
    end->asks = false;
    if (key == 'y')
        send_signal(end);
    else
        say(end, "goes on");
}

void top_end_words(const struct top_end *end, size_t columns, struct text *out) {
    const char *question = end->kills ? "? y = SIGKILL " : "? y = SIGTERM ";
    if (*end->said)
        text_format(out, " %s ", end->said);
    if (!end->asks)
        return;
    text_format(out, " %s %llu ", end->kills ? "kill" : "end",
                (unsigned long long)end->process.pid);
    size_t taken = out->length + strlen(question);
    text_add_n(out, end->name, bytes_of_columns(end->name, columns > taken ? columns - taken : 0));
    text_add(out, question);
}

void top_end_free(struct top_end *end) {
    free(end->told);
}
