/* stats_file.h: one statistics file as the command sees it: read, checked and made harmless, so
 * that nothing behind this door has to fear its content. It never writes into the file.
 *
 * The way through read/ and show/:
 *   found (records.h, running.h) -> read (here) -> clean (clean.h) -> figures (derived.h, cards.h)
 *     -> text (units.h, show/summary.h) | JSON (emit.h, show/report_fields.h) | page (show/html.h)
 *
 * Always: nobody but clean.c and who loads sees a byte of the file as it was written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "vramgc_format.h"

/* How the process ended, as far as it is known. */
enum process_state {
    PROCESS_RUNNING,  /* its pid lives, with the start time of the record */
    PROCESS_EXITED,   /* by exit or os._exit: see code */
    PROCESS_KILLED,   /* by a signal that the launcher saw: see signal */
    PROCESS_REPLACED, /* it went on as another program (execv) with a record of its own */
    PROCESS_VANISHED, /* by a signal that nobody saw who could tell */
    PROCESS_STATES
};

/* All texts in file end with a zero byte and are UTF-8 without control characters; all counts are
 * within their arrays. The rings are in order here, with only their complete entries. */
struct stats_file {
    char *path;
    struct vramgc_file *file;
    enum process_state state;
    int code;   /* exit status, -1: unknown */
    int signal; /* 0: none or unknown */
    bool again; /* a later record is of the same program, started again */
    uint64_t elapsed_ns;
    size_t action_count, refusal_count, mark_count, job_count;
    const struct vramgc_action *actions[VRAMGC_MAX_ACTIONS];
    const struct vramgc_refusal *refusals[VRAMGC_MAX_REFUSALS];
    const struct vramgc_mark *marks[VRAMGC_MAX_MARKS];
    const struct vramgc_job *jobs[VRAMGC_MAX_JOBS];
};

/* Reads the file at path. NULL, and a sentence in error, when it is not a whole statistics file of
 * this version. To be given back with stats_file_free(). No pointer may be NULL. */
struct stats_file *stats_file_load(const char *path, char *error, size_t capacity);

/* The beginning of a file. */
struct stats_peek {
    uint64_t pid, process_start, started_unix_ns, started_ns, latest_ns, end;
    bool went_wrong; /* PyTorch ran out of memory, or a signal that nobody sends by hand ended it */
    char run_id[sizeof((struct vramgc_file *)0)->run_id]; /* ends with a zero byte */
};

/* False: the file at path is no statistics file, or cannot be read. */
bool stats_file_peek(const char *path, struct stats_peek *peek);

/* A part of the file as it is by now, not made harmless. False: it cannot be read. */
bool stats_file_read_part(const char *path, size_t at, void *out, size_t bytes);

/* record may be NULL. */
void stats_file_free(struct stats_file *record);

/* True: the process of the record is there now. */
bool stats_file_process_lives(const struct stats_file *record);

/* Marks the records whose process went on in a later record of the list as replaced, and those that
 * were started again, as a web UI's script or the web UI itself does. */
void stats_files_relate(struct stats_file **records, size_t count);

/* When the process began, since 1970, and how long it ran: the record began with CUDA. */
uint64_t stats_file_began_unix_ns(const struct stats_file *record);
uint64_t stats_file_ran_ns(const struct stats_file *record);

/* "running", "exited", "killed", "replaced", "vanished". */
const char *stats_file_state_name(enum process_state state);

/* Words for the numbers in the file; NULL for a number that this version does not know. */
const char *stats_file_action_name(uint32_t kind);
const char *stats_file_reason_name(uint32_t reason);

/* The function of hooks.def that was called; NULL: not known. */
const char *stats_file_hook_name(const struct vramgc_file *file, uint32_t hook);

/* The value in force of the setting of that name (without VRAMGC_, in lower case); NULL: the file
 * does not name it. */
const char *stats_file_setting(const struct stats_file *record, const char *name);

/* True: the file names it with that value. */
bool stats_file_setting_is(const struct stats_file *record, const char *name, const char *value);

/* True: PyTorch was told to make its segments expandable. */
bool stats_file_is_expandable(const struct vramgc_file *file);

/* True: the program's PyTorch is 2.minor or newer; false also where the file does not tell. */
bool stats_file_torch_from(const struct vramgc_file *file, unsigned minor);

/* The mode in force; MODE_AUTO: the file does not tell. */
enum option_mode stats_file_mode(const struct vramgc_file *file);

/* Mode auto has found that this machine or program does not bear the page engine: neither a proof
 * nor asking for compact by name helps. */
bool stats_file_bears_no_pages(const struct stats_file *record);

/* True: the process that began then is there now; start_ticks 0: nobody knows. */
static inline bool process_lives(uint64_t pid, uint64_t start_ticks) {
    return start_ticks != 0 && process_start_ticks(pid) == start_ticks;
}

static inline bool peek_lives(const struct stats_peek *peek) {
    return process_lives(peek->pid, peek->process_start);
}

/* Of two requests that were refused, the one that is told: the latest that became an error of
 * PyTorch's, where there is any; others may do no harm. before may be NULL. */
const struct vramgc_refusal *refusal_to_tell(const struct vramgc_refusal *before,
                                             const struct vramgc_refusal *refusal);

/* ---- which program it is of, by the rule of base/process_stat.h ---- */

struct program_words program_of(const struct vramgc_file *file);

/* "ComfyUI: main.py --listen". */
enum { PROGRAM_BYTES = 256 + sizeof((struct vramgc_file *)0)->command_line + 4 };
void program_describe(const struct vramgc_file *file, struct text *out);

/* "ComfyUI: main.py", without what it was told, which may be long. */
void program_name(const struct vramgc_file *file, struct text *out);

/* True: it is called so, "ComfyUI: main.py", ComfyUI or main.py, in capital letters or not. */
bool program_is_called(const struct vramgc_file *file, const char *name);

/* True: its name, folder or arguments have the word, in capital letters or not. */
bool program_has_word(const struct vramgc_file *file, const char *word);
