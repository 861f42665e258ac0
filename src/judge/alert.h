/* alert.h: whether a rule's happening is there in a program's record, told once for each: what the
 * report calls an out-of-memory, growth as its verdict has it, and a card that becomes fuller than
 * so much. It starts nothing. */
#pragma once

#include "judge/alert_rules.h"
#include "read/stats_file.h"

struct alert {
    size_t rule;
    const struct stats_file *record;
    const struct vramgc_device *device; /* NULL: none is known, or it is of the host */
    uint64_t times;
    uint64_t request_bytes; /* ALERT_OOM; 0: not known */
    char message[1024];
    size_t count, count_length; /* the bytes of the message that are `times`; 0: none are */
};

typedef void alert_take(const struct alert *alert);

/* What was told of one record; zero at first. */
struct alert_seen {
    bool begun;
    uint64_t ooms_told, ooms_before;
    uint64_t used_peak_bytes[VRAMGC_MAX_DEVICES];
    bool above[ALERT_RULES_MAX][VRAMGC_MAX_DEVICES];
    bool grows[VRAMGC_MAX_DEVICES], host_grows;
};

/* Of an out-of-memory nothing is said before the next look has it still: the program may have gone
 * on at once without the memory. last: there is no next look. since_ns: CLOCK_MONOTONIC; what
 * happened in a program that had begun before is not told. */
void alert_look(const struct alert_rules *rules, struct alert_seen *seen, struct stats_file *record,
                uint64_t since_ns, bool last, alert_take *take);
