/* alert.h: VRAMGC_ON as it was typed: what starts which command; and each happening of a rule in a
 * program's record, told once: what the report calls an out-of-memory, growth as its verdict has
 * it, and a card that becomes fuller than so much. It starts nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"
#include "read/stats_file.h"

enum alert_kind { ALERT_OOM, ALERT_GROWTH, ALERT_USE };
enum { ALERT_RULES_MAX = 16 }; /* chosen: there are three kinds of them */

struct alert_rule {
    enum alert_kind kind;
    double percent; /* ALERT_USE: of the card */
    char when[16];  /* as it was typed: "90%" */
    bool shell;     /* sh gets the command, else it is words between spaces */
    const char *command;
};

struct alert_rules {
    struct alert_rule list[ALERT_RULES_MAX];
    size_t count;
    char text[OPTION_TEXT_BYTES]; /* holds the commands: no copy of this struct is one */
};

/* "WHEN[|WHEN...]:COMMAND", the next one behind a semicolon or a line end; COMMAND for a shell
 * begins with ! and goes to the line end, without a {}; no other has quotes, or words for a shell.
 * False, with a sentence in why: something is wrong. */
bool alert_rules_read(struct alert_rules *rules, const char *value, char *why, size_t capacity);

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

/* Of one record: all that was told so far; zero at first. */
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
