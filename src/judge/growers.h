/* growers.h: whether live memory, or the program's memory in the host, grows from job to job; and
 * with whom most of what grows stays. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "judge/facts.h"
#include "read/stats_file.h"

/* The floor of memory, from early in the run on. */
struct oom_growth {
    bool grows;
    uint64_t first_bytes, latest_bytes;
    uint64_t steps;     /* from the first to the latest */
    uint64_t job_bytes; /* from job to job, 0: not known */
    uint64_t jobs;
};

/* Of a device, whether or not anything was refused; and in its first so many turns: what a program
 * that was out of memory lets go is no part of why it was. */
struct oom_growth growth_of(const struct stats_file *record, const struct vramgc_device *device);
struct oom_growth growth_until(const struct stats_file *record, const struct vramgc_device *device,
                               uint64_t turns, uint64_t until_ns);

/* On any device, or in the host. */
bool record_grows(const struct stats_file *record);

/* Live memory when the program rested, after each job that was over by then. Returns how many. */
uint64_t left_by_jobs(const struct stats_file *record, const struct vramgc_device *device,
                      uint64_t until_ns, uint64_t left[VRAMGC_MAX_JOBS]);

/* By how much more is live than at first. */
uint64_t growth_bytes(const struct oom_growth *growth);

/* "+160 MiB a job, 26 jobs; most comes from encode_prompt (pipeline.py:212), text encode". */
void growth_say(struct text *text, const struct vramgc_file *file,
                const struct vramgc_device *device, const struct oom_growth *growth);

#define FIND_WHAT_IS_KEPT                                                                          \
    "Do you keep results in a list? Move them to RAM with .cpu() before. Does the loop run "       \
    "without torch.no_grad()? Each result then keeps all steps that led to it. Do you load a "     \
    "LoRA for each image? Unload it."

/* Most of what stays more and more is of models and LoRAs that are loaded; of LoRAs alone; or in a
 * cache of keys and values, as transformers' DynamicCache. */
enum growers { GROWERS_LOAD, GROWERS_LORA, GROWERS_CACHE };
bool growers_are(enum growers of, const struct vramgc_file *file,
                 const struct vramgc_device *device, uint64_t grown_bytes);

/* So many tensors of one function are a row. */
enum { GROWERS_PIECES = 8 };

/* Who asked has a row of tensors as large as the one that was refused: a loop that keeps each. A
 * model's weights are of many sizes. NULL: nobody. */
const struct vramgc_owner *growers_row(const struct vramgc_file *file,
                                       const struct vramgc_device *device,
                                       const struct vramgc_refusal *refusal);

/* So many that each new size may have one, or 0. */
static inline uint64_t growers_graphs(const struct vramgc_file *file) {
    uint64_t count = file->process.captures;
    return count >= GROWERS_PIECES ? count : 0;
}

/* One function's bytes; site NULL: nobody's. */
struct oom_part {
    const struct vramgc_site *site;
    uint64_t bytes;
};

/* Live memory when the work that was refused memory began. Where a function that loads, or one that
 * it called, asked: what it has put there since, and what of its earlier loads is still live. */
uint64_t live_before(const struct stats_file *record, const struct vramgc_device *device,
                     const struct vramgc_refusal *refusal);
bool site_loads(const struct vramgc_site *site);
bool site_is_lora(const struct vramgc_site *site);
bool site_is_cache(const struct vramgc_site *site);
struct oom_part load_at(const struct stats_file *record, const struct vramgc_device *device,
                        const struct vramgc_refusal *refusal, uint64_t *earlier_bytes);

/* Of a case RISES: live memory on any device, where it is asked for, and the host's. */
void facts_of_growth(struct facts *facts, const struct stats_file *record, bool on_card);
