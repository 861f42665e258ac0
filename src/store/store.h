/* store.h: the statistics file: created once, written in place. Nothing is formatted here and
 * nothing waits. All functions may be called from any thread, before the file is open too.
 *
 *     private memory --store_open: copied over--> the file
 *            ^------- store_abandon: a forked child -------'
 *
 * The invariant: the file is true at every moment, for the program may be killed at any. */
#pragma once

#include "base/base.h"
#include "base/options.h"
#include "vramgc_format.h"

/* Never NULL. For store_file alone. */
extern _Atomic(struct vramgc_file *) store_current;

static inline struct vramgc_file *store_file(void) {
    return atomic_load_explicit(&store_current, memory_order_acquire);
}

/* Creates the file named by the pattern and moves the figures there. False, after one warning,
 * when that cannot be done: the figures stay private and are lost at the end. pattern "" is no
 * file by wish. */
bool store_open(const char *pattern);

/* The path of the file, "" without one. */
const char *store_path(void);

/* In a forked child: the file belongs to the parent from now on. */
void store_abandon(void);

/* Where the file system has no shared mappings, a copy is written now; else nothing is done. */
void store_copy_out(void);

/* Writes the whole content to a new file. False with errno set. */
bool store_save_as(const char *path);

/* Nanoseconds since the record began. */
uint64_t store_age_ns(void);

/* The device's part of the file; index < VRAMGC_MAX_DEVICES. Marks the device as used. */
struct vramgc_device *store_device(unsigned index);

void store_settings(const struct options *options, const enum option_origin *origins);

/* These copy the entry, giving it its sequence and, where it is zero, its time_ns. The sequence is
 * returned so that the outcome can be added later. */
uint64_t store_action(const struct vramgc_action *action);
uint64_t store_refusal(const struct vramgc_refusal *refusal);
void store_mark(const char *label);
void store_job(const struct vramgc_job *job); /* with its time */

/* Puts the entry, which needs its sequence and time_ns, in the place of the one with that sequence;
 * does nothing when a later one has taken that. */
void store_action_again(const struct vramgc_action *action);
void store_refusal_again(const struct vramgc_refusal *refusal);

/* Copies entry number index, counted from 0. False: it is not complete, or a later one has taken
 * its place. */
bool store_action_at(uint64_t index, struct vramgc_action *out);

/* Adds a point to the device's timeline if its step has passed, else raises the latest one.
 * live_top_bytes: the highest that live memory was since the last call, if it has fallen since. For
 * one thread only. */
void store_sample(struct vramgc_device *device, uint64_t first_step_ns, uint64_t live_top_bytes);

/* Adds a point, with its time, to the device's list of whose memory was live, in the same way.
 * True: as a point of its own. */
bool store_who(struct vramgc_device *device, uint64_t first_step_ns,
               const struct vramgc_who *point);

/* Keeps the device's figures as those of a rest. */
void store_rest(struct vramgc_device *device);

/* The program was told to stop, and has allocated nothing since the rest that is kept. */
bool store_only_stops(const struct vramgc_device *device);

/* Python is about to end: keeps the figures of each device that has worked since it last rested. */
void store_python_ends(void);

/* Single figures; several threads may write the same one. */
static inline uint64_t figure_get(const uint64_t *figure) {
    return __atomic_load_n(figure, __ATOMIC_RELAXED);
}

static inline void figure_set(uint64_t *figure, uint64_t value) {
    __atomic_store_n(figure, value, __ATOMIC_RELAXED);
}

static inline uint64_t figure_add(uint64_t *figure, uint64_t value) {
    return __atomic_add_fetch(figure, value, __ATOMIC_RELAXED);
}

/* Each of them whole, in their order; others may write them meanwhile. */
static inline void figures_copy(void *to, const void *from, size_t bytes) {
    uint64_t *copies = to;
    const uint64_t *figures = from;
    for (size_t i = 0; i < bytes / sizeof *figures; i++)
        figure_set(&copies[i], figure_get(&figures[i]));
}

/* Adds without an atomic read-modify-write: for figures that one lock protects. */
static inline void figure_bump(uint64_t *figure, uint64_t value) {
    figure_set(figure, figure_get(figure) + value);
}

/* For gauges that one lock protects. */
static inline void gauge_set(struct vramgc_gauge *gauge, uint64_t value) {
    figure_set(&gauge->current, value);
    if (UNLIKELY(value > figure_get(&gauge->peak)))
        figure_set(&gauge->peak, value);
}

/* For gauges that several threads change. Never falls below zero. */
void gauge_add(struct vramgc_gauge *gauge, uint64_t bytes);
void gauge_subtract(struct vramgc_gauge *gauge, uint64_t bytes);
