/* record_fields.h: what there is to tell of each kind of record in a statistics file, once for all
 * formats. Lists of the JSON report, its schema and the long text show all fields; the arguments
 * of a trace show those that they name. */
#pragma once

#include <stddef.h>

#include "read/emit.h"
#include "read/stats_file.h"

struct record_type {
    const char *list, *help, *help_of_one;
    /* Into an object that is open. record: a struct vramgc_action for action_type, ... */
    void (*write)(struct emit *emit, const struct vramgc_file *file, const void *record);
    size_t entries, count; /* where struct stats_file lists them, if it does */
};

extern const struct record_type action_type, refusal_type, mark_type, job_type, neighbour_type,
    owner_type, who_type, site_type, frame_type, setting_type, hook_type;

/* Where records lie: in an array, or behind an array of pointers. */
struct record_list {
    const void *first;
    size_t count;
    size_t bytes; /* of a record; 0: pointers */
};

#define RECORDS_IN(array, count) ((struct record_list){(array), (count), sizeof *(array)})

/* Those that struct stats_file lists, oldest first. */
struct record_list record_entries(const struct stats_file *record, const struct record_type *type);

void record_list_write(struct emit *emit, const struct record_type *type,
                       const struct vramgc_file *file, struct record_list list);

/* The fields that are named, separated by commas, in that order, as emit->only says. */
void record_columns(struct emit *emit, const struct record_type *type, const char *names,
                    const struct vramgc_file *file, const void *record);

/* Figures of the host's memory at a look, as everybody calls them. */
struct host_figure {
    const char *name, *help;
    size_t offset; /* in struct vramgc_host_look */
    bool none_is_0;
};

enum { HOST_FIGURES = 8 };
extern const struct host_figure host_figures[HOST_FIGURES];
uint64_t host_figure(const struct host_figure *figure, const struct vramgc_host_look *look);

void host_fields(struct emit *emit, const struct vramgc_host *host);
