/* watch.h: the programs under vramgc, looked at again and again for what VRAMGC_ON and VRAMGC_PARK
 * name: by `vramgc watch`, and by a process of ours beside the program of `vramgc run`. Nothing of
 * it is in the program: it reads what the library writes down anyway. */
#pragma once

#include "judge/alert.h"

/* Both are nothing where it could not be started. */
struct watch_beside {
    int process, channel;
};

/* Of the files made with the pattern that carry run_id, both of which must stay as the rules.
 * park_ns: see park_idle.h. */
void watch_beside_start(struct watch_beside *beside, const struct alert_rules *rules,
                        uint64_t park_ns, const char *pattern, const char *run_id);

/* The program has ended: a last look. */
void watch_beside_last(const struct watch_beside *beside);

/* Until its commands have ended, a few seconds at most. */
void watch_beside_end(const struct watch_beside *beside);
