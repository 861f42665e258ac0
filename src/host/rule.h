/* rule.h: when memory of the host goes back to the system. Pure: it knows no clock and no
 * allocator. The caller says what the process has, and how busy it is.
 *
 *  * Only at rest: over the last REST the process used less than a tenth of one processor.
 *  * Only if there is something to gain: beside what is in use it has STEP more than after the
 *    last release, and so much more is kept.
 *  * A hundredth of the time at most: so much of it what it cost the program to have mapped anew
 *    what releases gave back may be. Time in which it cost less is saved up, to some minutes.
 *    What a release itself took was taken from nobody, for the program rested: a tenth. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the process has; what of it is known to be in use, 0 where nothing is; and what whoever
 * gives back keeps of the rest, as far as is known: all of it, or some that is not there. */
struct host_has {
    uint64_t bytes, in_use_bytes, kept_bytes;
};

struct host_rule {
    uint64_t spare_bytes; /* least that it had beside what is in use since the last release */
    uint64_t kept_bytes;  /* and least that was kept */
    uint64_t step_bytes;  /* 0: none was made yet */
    uint64_t released_ns, took_ns, left_bytes; /* the last release, and what the process had then */
    uint64_t gained_bytes, again_bytes; /* what it gave back, and the most of it that came back */
    uint64_t paid_until_ns;             /* until then what the ones before it cost is worked off */
    uint64_t observed_bytes;            /* would be gone, had releases not only been observed */
};

/* What the program used of its processors until then, and since when it has rested. */
struct host_pace {
    uint64_t time_ns, program_ns, rests_since_ns; /* rests_since_ns 0: it does not rest */
};

/* A reading, a few times a second: of the process, and of the thread that releases, which is no
 * work of the program's. Whether that rests. */
bool host_rests(struct host_pace *pace, uint64_t now_ns, uint64_t processor_ns, uint64_t own_ns);

/* Whether to make a release now, at rest, while the process has so much. */
bool host_release_is_due(struct host_rule *rule, uint64_t now_ns, struct host_has has);

/* The same where none is ever made: how much one would give back now, as the rule would have it had
 * it made those before. */
uint64_t host_release_observed(struct host_rule *rule, uint64_t now_ns, struct host_has has);

/* One was made, and took so long. */
void host_released(struct host_rule *rule, uint64_t now_ns, uint64_t took_ns,
                   struct host_has before, struct host_has after);
