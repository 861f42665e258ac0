/* settings.c: see settings.h. */
#include "cli/settings.h"
#include "judge/alert.h"
#include "read/complain.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Short forms of settings that are typed often. */
static char letter_of(const struct option_info *info) {
    if (strcmp(info->name, "threshold") == 0)
        return 't';
    return strcmp(info->name, "out") == 0 ? 'o' : 0;
}

const char *settings_argument(const struct option_info *info) {
    switch (info->type) {
    case BOOL:
        return "[=0|1]";
    case PERCENT:
        return "PERCENT";
    case SIZE:
        return "SIZE";
    case AMOUNT:
        return "SIZE|PERCENT%";
    case DURATION:
        return "DURATION";
    case COUNT:
        return "N";
    case CHOICE:
    case TEXT:
        break;
    }
    return info->words;
}

static bool typed[FLAGS_MAX]; /* by the number of the setting */

static bool set(const struct option_info *info, const char *value) {
    typed[info - option_table] = true;
    return setenv(info->variable, value, 1) == 0;
}

const struct option_info *settings_find(const char *name) {
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].name, name) == 0)
            return &option_table[i];
    return NULL;
}

bool settings_is_often_set(const char *name) {
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(" mode threshold lowvram spill headroom cap on ", word);
}

/* Each --on is one rule more; they take the place of what VRAMGC_ON held. */
static bool take_on(const struct option_info *info, const struct args *args) {
    struct alert_rules rules;
    char why[256], *all = NULL;
    const char *before = typed[info - option_table] ? getenv(info->variable) : "";
    if (!alert_rules_read(&rules, args->value, why, sizeof why)) {
        complain("--on %s: %s; see `vramgc help watch`", args->value, why);
        return false;
    }
    if (rules.count == 0) {
        complain("--on needs WHEN:COMMAND, as in 'oom:notify-send vramgc {}'; see `vramgc help "
                 "watch`");
        return false;
    }
    bool fine = asprintf(&all, "%s\n%s", before, args->value) >= 0 &&
                strlen(all) < OPTION_TEXT_BYTES && set(info, all);
    if (!fine)
        complain("all --on together are longer than %d bytes", OPTION_TEXT_BYTES - 1);
    free(all);
    return fine;
}

bool settings_take(const struct args *args) {
    struct options ignored;
    const struct option_info *info = settings_find(args->flag->name);
    const char *value = args->value ? args->value : "1"; /* only a BOOL may be without */
    if (strcmp(info->name, "on") == 0)
        return take_on(info, args);
    options_defaults(&ignored);
    if (option_set(info, value, &ignored))
        return set(info, value);
    char shown[96], sentence[512];
    struct text text = TEXT_IN(shown);
    text_format(&text, "%.60s%s%s", args->typed, args->value_apart ? " " : "",
                args->value_apart ? value : "");
    option_refusal(info, shown, value, sentence, sizeof sentence);
    complain("%s", sentence);
    return false;
}

static bool take_give_back(const struct args *args) {
    int choice = parse_choice(args->value, args->flag->argument);
    if (choice >= 0)
        return set(settings_find("lowvram"), choice == 1 ? "1" : "0");
    complain("--%s %s is not one of %s", args->flag->name, args->value, args->flag->argument);
    return false;
}

/* Web UIs have a --lowvram of their own, which is slow: these are other words for ours. */
static const struct flag words[] = {
    {"give-back", 0, "threshold|at-once",
     "when idle memory goes back. threshold: while the card is fuller than --threshold, as without "
     "--lowvram. at-once: always, as with --lowvram. No model is moved to RAM",
     .take = take_give_back},
};

size_t settings_flags(struct flag *flags, size_t capacity) {
    size_t count = 0;
    for (size_t i = 0; i < option_count && count < capacity; i++) {
        const char *argument = settings_argument(&option_table[i]);
        flags[count++] = (struct flag){option_table[i].name, letter_of(&option_table[i]),
                                       *argument ? argument : "TEXT", option_table[i].help,
                                       .take = settings_take};
    }
    for (size_t i = 0; i < ARRAY_LENGTH(words) && count < capacity; i++)
        flags[count++] = words[i];
    return count;
}

bool settings_typed(const struct option_info *info) {
    return typed[info - option_table];
}

static void complain_about_setting(const char *sentence, void *context) {
    (void)context;
    complain("%s", sentence);
}

/* Removes the first variable that is unknown. False: there is none. */
static bool remove_unknown(void) {
    for (char **entry = environ; *entry; entry++) {
        if (!option_is_unknown(*entry))
            continue;
        char *name = strndup(*entry, strcspn(*entry, "="));
        bool removed = name && unsetenv(name) == 0;
        free(name);
        return removed;
    }
    return false;
}

void settings_read(struct options *options) {
    enum option_origin origins[FLAGS_MAX];
    options_read(options, origins, complain_about_setting, NULL);
    for (size_t i = 0; i < option_count; i++)
        if (origins[i] == ORIGIN_INVALID)
            unsetenv(option_table[i].variable);
    while (remove_unknown())
        continue;
}
