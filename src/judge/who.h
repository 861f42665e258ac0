/* who.h: whose the memory of a card was: the program's functions, as rows and in words; libraries
 * beside PyTorch; one short peak; and what the program left to others, or others gave it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "read/stats_file.h"

/* The highest live memory was that of one short time: a load of LoRAs, the decoding of one
 * large image. What it needed beyond all else is what a smaller card lacks. It knows neither
 * functions nor jobs: the timeline will do. */
struct short_peak {
    bool stands_alone;
    uint64_t time_ns, live_bytes;
    uint64_t else_bytes;        /* the most that was live in all the rest of the time */
    uint64_t from_ns, until_ns; /* but of this, which it lies in */
};

/* elapsed_ns: of the whole record. */
struct short_peak short_peak_of(const struct vramgc_device *device, uint64_t elapsed_ns);

/* A line of a table: what is theirs at the peak of live memory and, if there was one, at the
 * out-of-memory. site NULL: what nobody is known by name for. */
struct who_row {
    const struct vramgc_site *site;
    uint64_t peak_bytes, oom_bytes;
};

/* Of a device: the largest at the peak first, then who is so only at the out-of-memory, then the
 * rest. 0: nobody is known. */
enum { WHO_ROWS = 2 * VRAMGC_MAX_OWNERS + 1 };
size_t who_rows(const struct vramgc_file *file, const struct vramgc_device *device,
                struct who_row rows[WHO_ROWS]);
bool who_has_oom(const struct vramgc_device *device);

/* Whose some live memory was and who had called them: as indexes of sites, the outermost first. */
struct who_stack {
    uint64_t sites[VRAMGC_MAX_DEPTH], depth, bytes;
};

/* The one of that number: of calls, the largest first; then of owners, what is theirs beside that,
 * perhaps nothing, with nobody who called them. False: there are no more. */
bool who_stack(const struct vramgc_file *file, const struct vramgc_owners *owners,
               const struct vramgc_owners *calls, size_t number, struct who_stack *stack);

/* Both are the same function, perhaps of two programs, and part of the same. */
bool who_is_same(const struct vramgc_site *a, const struct vramgc_site *b);

/* The place that asked for what was refused; NULL: not known. */
const struct vramgc_site *who_asked(const struct vramgc_file *file,
                                    const struct vramgc_refusal *refusal);

/* The largest at a short peak but for models, and for what was there in other time, too: it may be
 * what made the peak if it has about as much as that was higher than all else. NULL: not known. */
const struct vramgc_site *who_works_at_peak(const struct vramgc_file *file,
                                            const struct vramgc_device *device,
                                            const struct short_peak *peak);

/* That function's entry, whose number begins at 0; NULL: it has none. */
const struct vramgc_owner *who_find(const struct vramgc_owners *owners, uint64_t site);

/* The job of that device had ended by then. */
static inline bool job_is_over(const struct vramgc_job *job, uint64_t device, uint64_t then_ns) {
    return job->device == device && job->time_ns + job->took_ns < then_ns;
}

/* Who had it when a job had left so much; NULL: not known. */
const struct vramgc_who *who_when(const struct vramgc_device *device, const struct vramgc_job *job);

/* By how much so many bytes of a site are more than it had then; NULL: than nothing. */
uint64_t who_more_than(const struct vramgc_who *then, uint64_t site, uint64_t bytes);

/* "encode_prompt (pipelines/pipeline.py:212)"; short, of a site that is
 * known: "encode_prompt (pipeline.py:212)". */
struct who_name {
    char text[160];
};
struct who_name who_name(const struct vramgc_site *site);
struct who_name who_short_name(const struct vramgc_site *site);

/* "5.0 GiB of 7.0 GiB live at the peak: load_model (modules/sd_models.py:310), model move": of the
 * refusal, where that is given and it is known, else of the peak; and then of who has most more
 * than after the first job. Nothing where nobody is known; device may be NULL without a refusal. */
void who_say_most(struct text *text, const struct stats_file *record,
                  const struct vramgc_device *device, const struct vramgc_refusal *refusal);

/* ---- libraries other than PyTorch's allocator ---- */

/* The name of its file; NULL: not known. */
const char *library_name(const struct vramgc_file *file, uint64_t index);

/* By that name, which may not be NULL: ComfyUI's DynamicVRAM. */
static inline bool library_is_aimdo(const char *name) {
    return strncmp(name, "aimdo", 5) == 0;
}

/* The one that held, at its own peak, more than half of what all of them held at theirs; NULL: none
 * did, or it is not known. */
const char *library_of_most(const struct vramgc_file *file, const struct vramgc_device *device);

/* All that PyTorch had, tensor by tensor: PYTORCH_NO_CUDA_MEMORY_CACHING is set. */
bool library_is_uncached(const struct vramgc_file *file, const struct vramgc_device *device);

/* The library held enough to be worth a line beside all of them. */
bool library_shows(const struct vramgc_device *device, uint64_t index);

/* ---- how a program shared its card, in words ---- */

/* "head-room: 2.0 GiB stay free for others; cap: 8.0 GiB at most": what is in force, and was at the
 * end. Nothing, and false, where nothing is. */
bool shared_card_say_limits(struct text *text, const struct vramgc_limits *limits);

/* "lacked memory, and got 2.0 GiB from python (1234) in 3 ms": the time is the answers of all that
 * were asked. Nothing, and false, where none gave. */
bool shared_card_say_giver(struct text *text, const struct vramgc_file *file);
