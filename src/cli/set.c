/* set.c: the command `vramgc set`: the limits of a program that runs. It stores words into that
 * program's statistics file which the program reads at each request (cuda/limit.h). It must not
 * store what is no amount. */
#include "base/base.h"
#include "base/clean_text.h"
#include "base/options.h"
#include "cli/cli.h"
#include "cli/live_file.h"
#include "cli/settings.h"
#include "judge/who.h"
#include "read/derived.h"
#include "read/stats_file.h"
#include "read/units.h"

#include <stdio.h>
#include <string.h>

/* NULL: it cannot be set while a program runs. */
static uint64_t *limit_of(struct vramgc_limits *limits, const char *name) {
    return strcmp(name, "headroom") == 0 ? &limits->headroom
           : strcmp(name, "cap") == 0    ? &limits->cap
                                         : NULL;
}

/* NAME=VALUE. */
static bool take(const char *typed, struct vramgc_limits *limits) {
    char name[32] = "", sentence[256];
    const char *value = strchr(typed, '=');
    if (value && (size_t)(value - typed) < sizeof name)
        memcpy(name, typed, (size_t)(value - typed));
    const struct option_info *info = settings_find(name);
    struct options options;
    if (!info || !limit_of(limits, name)) {
        complain("%s: what can be set while a program runs is headroom=SIZE and cap=SIZE", typed);
        return false;
    }
    if (!option_set(info, value + 1, &options)) {
        option_refusal(info, typed, value + 1, sentence, sizeof sentence);
        complain("%s", sentence);
        return false;
    }
    *limit_of(limits, name) = *(const uint64_t *)((const char *)&options + info->offset);
    return true;
}

/* A name may fit another program than was meant, and what is live stays until it is freed. */
static void tell(const struct vramgc_file *file) {
    char words[PROGRAM_BYTES + 256];
    struct text text = TEXT_IN(words);
    program_describe(file, &text);
    text_format(&text, " (%llu): ", (unsigned long long)file->pid);
    if (!shared_card_say_limits(&text, &file->limits))
        text_add(&text, "no head-room, no cap");
    clean_text(words, sizeof words); /* the file is the program's own */
    printf("%s; it holds %s now\n", words, show_bytes(held_on_all_cards(file)).text);
}

static int set_main(struct args *args) {
    if (args->operand_count < 2 || !*args->argv[0]) {
        complain("which program, and what? vramgc set PID|NAME headroom=2GiB");
        return STATUS_USAGE;
    }
    struct vramgc_limits limits = {UINT64_MAX, UINT64_MAX}; /* left alone */
    for (int i = 1; i < args->operand_count; i++)
        if (!take(args->argv[i], &limits))
            return STATUS_USAGE;
    struct vramgc_file *file = live_file_open(args->argv[0]);
    if (!file)
        return STATUS_BAD_INPUT;
    if (limits.headroom != UINT64_MAX)
        __atomic_store_n(&file->limits.headroom, limits.headroom, __ATOMIC_RELAXED);
    if (limits.cap != UINT64_MAX)
        __atomic_store_n(&file->limits.cap, limits.cap, __ATOMIC_RELAXED);
    tell(file);
    live_file_close(file);
    return STATUS_FINE;
}

const struct command set_command = {
    "set",
    GROUP_RUNNING,
    "PID|NAME headroom=SIZE|cap=SIZE...",
    "change how much of the card a program gets, or leaves to others",
    "NAME: as of `vramgc mark`. SIZE: 2GiB, or 10% of the card; 0 ends it. It holds for the next "
    "request of the program at once; memory that lies idle goes back within a second, live memory "
    "when the program frees it. VRAMGC_HEADROOM and VRAMGC_CAP set the same at the start. Exit "
    "status 1 when there is no such program under vramgc, 2 for a wrong call.\n",
    .main = set_main,
};
