/* control_group.h: what Linux lets the programs of a container, a service or a session have of the
 * host's memory together (cgroups, version 1 and 2), and whether it has ended one for lack of it.
 * Read by vramgc's own thread, and by `vramgc run` once the program has ended. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct control_group {
    uint64_t id;          /* of its folder, while Linux runs; 0: there is none, or it is not seen */
    uint64_t limit_bytes; /* the least of it and of those it is in; 0: none, or not known */
    uint64_t used_bytes;  /* what counts against that, cached files among it */
    uint64_t oom_kills;   /* processes in it that Linux has ended for lack of memory */
    bool counts_kills;    /* oom_kills is known */
};

/* Of this process. root: in front of /proc and /sys, "" but in tests. Some small files are read;
 * nothing is allocated. */
struct control_group control_group_read(const char *root);

/* How much the programs of the same may still take, where files that Linux keeps only as long as
 * nobody needs the memory give way; UINT64_MAX: it has no limit. What Linux counts of it is not at
 * hand: not for each look. */
uint64_t control_group_room(const char *root);
