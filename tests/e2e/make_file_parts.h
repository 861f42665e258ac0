/* make_file_parts.h: what the scenarios of make_file.c, make_file_host.c and make_file_states.c are
 * made of. */
#ifndef MAKE_FILE_PARTS_H
#define MAKE_FILE_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "vramgc_format.h"

#define MIB    ((uint64_t)1 << 20)
#define GIB    ((uint64_t)1 << 30)
#define SECOND ((uint64_t)1000000000)

static inline struct vramgc_gauge gauge(uint64_t current, uint64_t peak) {
    return (struct vramgc_gauge){current, peak};
}

struct scenario {
    const char *name;
    void (*make)(struct vramgc_file *file);
};

/* False: there is none of that name. */
bool make_one_of(struct vramgc_file *file, const struct scenario *scenarios, size_t count,
                 const char *name);
bool make_of_host(struct vramgc_file *file, const char *scenario);
bool make_run(struct vramgc_file *file, const char *scenario);

/* A run in which nothing is to be told. */
void plain(struct vramgc_file *file);

/* An ended process with its settings; then its devices. */
void set_head(struct vramgc_file *file);
void set_device(struct vramgc_file *file, size_t index, const char *name);
void set_samples(struct vramgc_device *device, uint64_t held_peak, uint64_t live_peak,
                 uint64_t others);

/* Of the first device. */
void add_action(struct vramgc_file *file, uint64_t time_ns, uint32_t kind, uint32_t observed);
void add_refusal(struct vramgc_file *file, uint64_t time_ns, uint32_t cause, uint32_t granted);
void add_mark(struct vramgc_file *file, uint64_t time_ns, const char *label);
void add_job(struct vramgc_file *file, uint64_t time_ns, uint64_t host_bytes);
void add_stack(struct vramgc_file *file);
void add_site(struct vramgc_file *file, const char *function, const char *name, uint32_t line,
              const char *phase);
void set_sharing(struct vramgc_file *file);
void add_call(struct vramgc_file *file, uint32_t caller, uint32_t site);
void add_library(struct vramgc_file *file, const char *name, struct vramgc_gauge held);
void add_owner(struct vramgc_owners *owners, uint32_t site, uint64_t bytes);
/* Three functions, and who had how much at the peak, at the out-of-memory, and of what grew. */
void add_owners(struct vramgc_file *file);
void add_who(struct vramgc_file *file, uint64_t second, uint64_t live_bytes,
             const uint64_t of_site[3]);

#endif
