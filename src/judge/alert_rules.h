/* alert_rules.h: VRAMGC_ON as it was typed: what starts which command. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"

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
