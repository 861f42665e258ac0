/* rule.h: when memory of the host goes back to the system. Pure: it knows no clock and no
 * allocator. The caller says what the process has, and how busy it is.
 *
 *  * Only at rest: over the last REST the process used less than a tenth of one processor.
 *  * Only if there is something to gain: it has STEP more than after the last release.
 *  * A hundredth of the time at most: what a release took, and what it costs the program to have
 *    that much mapped anew, must be less than a hundredth of the time since the release. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct host_rule {
    uint64_t base_bytes; /* least that it had since the last release */
    uint64_t not_before_ns;
    uint64_t step_bytes; /* 0: none was made yet */
};

/* What the program used of its processors until then, and since when it has rested. */
struct host_pace {
    uint64_t time_ns, program_ns, rests_since_ns; /* rests_since_ns 0: it does not rest */
};

/* A reading, a few times a second: of the process, and of the thread that releases, which is no
 * work of the program's. Whether that rests. */
bool host_rests(struct host_pace *pace, uint64_t now_ns, uint64_t processor_ns, uint64_t own_ns);

/* Whether to make a release now, at rest, while the process has so much. */
bool host_release_is_due(struct host_rule *rule, uint64_t now_ns, uint64_t bytes);

/* One was made, and took so long. */
void host_released(struct host_rule *rule, uint64_t now_ns, uint64_t took_ns, uint64_t before_bytes,
                   uint64_t after_bytes);
