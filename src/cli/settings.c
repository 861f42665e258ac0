/* settings.c: see settings.h. */
#include "cli/settings.h"
#include "cli/cli.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"

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

/* Web UIs have a --lowvram of their own, which is slow: these are other words for ours. */
static const struct flag words[] = {
    {"give-back", 0, "threshold|at-once",
     "when idle memory goes back. threshold: while the card is fuller than --threshold, as without "
     "--lowvram. at-once: always, as with --lowvram. No model is moved to RAM"},
};

size_t settings_flags(struct flag *flags, const struct flag *own, size_t own_count) {
    size_t count = 0;
    for (size_t i = 0; i < own_count && count < SETTINGS_MAX; i++)
        flags[count++] = own[i];
    for (size_t i = 0; i < option_count && count < SETTINGS_MAX; i++)
        flags[count++] = (struct flag){
            option_table[i].name, letter_of(&option_table[i]),
            *settings_argument(&option_table[i]) ? settings_argument(&option_table[i]) : "TEXT",
            option_table[i].help};
    for (size_t i = 0; i < ARRAY_LENGTH(words) && count < SETTINGS_MAX; i++)
        flags[count++] = words[i];
    return count;
}

const struct flag *settings_words(size_t *count) {
    *count = ARRAY_LENGTH(words);
    return words;
}

static const struct option_info *find_setting(const char *name) {
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].name, name) == 0)
            return &option_table[i];
    return NULL;
}

/* --give-back, the only one so far. */
static const struct option_info *take_words(const char *value) {
    int choice = parse_choice(value, words[0].argument);
    const struct option_info *info = find_setting("lowvram");
    if (choice >= 0 && info)
        setenv(info->variable, choice == 1 ? "1" : "0", 1);
    else
        complain("--%s %s is not one of %s", words[0].name, value, words[0].argument);
    return choice >= 0 ? info : NULL;
}

const struct option_info *settings_take(size_t number, const struct args *args) {
    struct options ignored;
    const char *value = args->value;
    if (number >= option_count)
        return take_words(value);
    const struct option_info *info = &option_table[number];
    options_defaults(&ignored);
    if (!value)
        value = "1";
    if (option_set(info, value, &ignored)) {
        setenv(info->variable, value, 1);
        return info;
    }
    char typed[96], sentence[512];
    struct text text = TEXT_IN(typed);
    text_format(&text, "%.60s%s%s", args->typed, args->value_apart ? " " : "",
                args->value_apart ? value : "");
    option_refusal(info, typed, value, sentence, sizeof sentence);
    complain("%s", sentence);
    return NULL;
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

size_t settings_read(struct options *options) {
    enum option_origin origins[SETTINGS_MAX];
    size_t complaints = options_read(options, origins, complain_about_setting, NULL);
    for (size_t i = 0; i < option_count; i++)
        if (origins[i] == ORIGIN_INVALID)
            unsetenv(option_table[i].variable);
    while (remove_unknown())
        continue;
    return complaints;
}
