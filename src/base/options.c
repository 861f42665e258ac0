/* options.c: see options.h. It must not know what the settings mean, only their types. */
#include "base/options.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "VRAMGC_"

/* Set by vramgc for itself; not for people. */
static const char *const private_variables[] = {
    "VRAMGC_RUN_ID",           "VRAMGC_CHOSE_ALLOC_CONF", "VRAMGC_GIVEN_CUDA_ALLOC_CONF",
    "VRAMGC_GIVEN_ALLOC_CONF", "VRAMGC_UNPROVEN",         "VRAMGC_MUTANT"};

/* An alert tells its command by the first; tests set a clock and standards by the second. */
static const char *const private_beginnings[] = {"VRAMGC_ALERT", "VRAMGC_TEST_"};

const struct option_info option_table[] = {
#define OPTION(type, name, variable, standard, low, high, words, help)                             \
    {type, #name, #variable, standard, low, high, words, help, offsetof(struct options, name)},
#include "options.def"
#undef OPTION
};

const size_t option_count = ARRAY_LENGTH(option_table);

const char *mode_name(enum option_mode mode) {
    static const char *const names[] = {"off", "observe", "flush", "compact", "auto"};
    return (size_t)mode < ARRAY_LENGTH(names) ? names[mode] : "?";
}

static bool within(const struct option_info *info, double value) {
    return value >= info->low && value <= info->high;
}

/* A bare 0.8 is more likely meant as a ratio than as 0.8 percent: neither is guessed. */
static bool looks_like_ratio(const char *value, double percent) {
    return percent > 0 && percent < 1 && !strchr(value, '%');
}

static bool set_percent(const struct option_info *info, const char *value, void *field) {
    double percent;
    if (!parse_percent(value, &percent) || !within(info, percent) ||
        looks_like_ratio(value, percent))
        return false;
    *(option_percent_t *)field = percent;
    return true;
}

static bool set_number(const struct option_info *info, const char *value, void *field,
                       bool (*parse)(const char *, uint64_t *)) {
    uint64_t number;
    if (!parse(value, &number) || !within(info, (double)number))
        return false;
    *(option_number_t *)field = number;
    return true;
}

static bool set_choice(const struct option_info *info, const char *value, void *field) {
    int choice = parse_choice(value, info->words);
    if (choice < 0)
        return false;
    *(option_choice_t *)field = choice;
    return true;
}

static bool set_text(const char *value, void *field) {
    if (strlen(value) >= OPTION_TEXT_BYTES)
        return false;
    text_copy(field, OPTION_TEXT_BYTES, value);
    return true;
}

/* A unit was forgotten, and none is guessed: less than 1 MiB is nobody's wish, and one setting is a
 * matter of microseconds, another of days. 0 needs none. */
enum { LEAST_BARE_BYTES = 1 << 20 };

static bool lacks_unit(const struct option_info *info, const char *value) {
    uint64_t bytes;
    bool bare = value[strspn(value, "0123456789.")] == 0 && strpbrk(value, "123456789");
    if (info->type == SIZE || info->type == AMOUNT)
        return bare && parse_size(value, &bytes) && bytes < LEAST_BARE_BYTES;
    return info->type == DURATION && bare;
}

bool option_set(const struct option_info *info, const char *value, struct options *options) {
    void *field = (char *)options + info->offset;
    if (lacks_unit(info, value))
        return false;
    switch (info->type) {
    case BOOL:
        return parse_bool(value, field);
    case PERCENT:
        return set_percent(info, value, field);
    case SIZE:
        return set_number(info, value, field, parse_size);
    case AMOUNT:
        return parse_amount(value, field);
    case DURATION:
        return set_number(info, value, field, parse_duration);
    case COUNT:
        return set_number(info, value, field, parse_count);
    case CHOICE:
        return set_choice(info, value, field);
    case TEXT:
        return set_text(value, field);
    }
    return false;
}

void options_defaults(struct options *options) {
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < option_count; i++)
        option_set(&option_table[i], option_table[i].standard, options);
}

static void add_accepted(struct text *text, const struct option_info *info) {
    switch (info->type) {
    case BOOL:
        text_add(text, "1, 0, true, false, yes, no, on, or off");
        break;
    case PERCENT:
        text_format(text, "a percentage from %d to %d, such as 80", (int)info->low,
                    (int)info->high);
        break;
    case SIZE:
        text_add(text, "a size with its unit, such as 512MiB or 1.5G, up to ");
        text_add_bytes(text, (uint64_t)info->high);
        break;
    case AMOUNT:
        text_add(text, "a size with its unit, such as 2GiB, or a part of the card, such as 80%");
        break;
    case DURATION:
        text_add(text, "a duration ");
        if (info->low > 0) {
            text_add(text, "from ");
            text_add_duration(text, (uint64_t)info->low);
            text_add(text, " ");
        }
        text_add(text, info->low > 0 ? "to " : "up to ");
        text_add_duration(text, (uint64_t)info->high);
        text_add(text, ", such as 100ms or 5s");
        break;
    case COUNT:
        text_format(text, "a whole number from %d to %d", (int)info->low, (int)info->high);
        break;
    case CHOICE:
        text_format(text, "one of %s", info->words);
        break;
    case TEXT:
        text_format(text, "a text of fewer than %d bytes", (int)OPTION_TEXT_BYTES);
        break;
    }
}

void option_refusal(const struct option_info *info, const char *typed, const char *value, char *out,
                    size_t capacity) {
    struct text text = text_in(out, capacity);
    if (lacks_unit(info, value)) {
        text_format(&text, "%.80s lacks its unit: %s", typed,
                    info->type != DURATION ? "KiB, MiB or GiB" : "us, ms, s, m, h or d");
        return;
    }
    text_format(&text, "%.80s is not ", typed);
    add_accepted(&text, info);
}

static const char *without_prefix(size_t index) {
    return option_table[index].variable + sizeof PREFIX - 1;
}

static bool is_called(const char *entry, size_t length, const char *variable) {
    return strlen(variable) == length && memcmp(variable, entry, length) == 0;
}

bool option_is_unknown(const char *entry) {
    size_t length = strcspn(entry, "=");
    if (strncmp(entry, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(private_beginnings); i++)
        if (strncmp(entry, private_beginnings[i], strlen(private_beginnings[i])) == 0)
            return false;
    for (size_t i = 0; i < option_count; i++)
        if (is_called(entry, length, option_table[i].variable))
            return false;
    for (size_t i = 0; i < ARRAY_LENGTH(private_variables); i++)
        if (is_called(entry, length, private_variables[i]))
            return false;
    return true;
}

static size_t complain_about_unknown(option_complain *complain, void *context) {
    size_t complaints = 0;
    for (char **entry = environ; entry && *entry; entry++) {
        if (!option_is_unknown(*entry))
            continue;
        char name[64], sentence[256];
        struct text text = TEXT_IN(name);
        text_add_n(&text, *entry, strcspn(*entry, "="));
        const char *nearest = nearest_word(name + sizeof PREFIX - 1, option_count, without_prefix);
        text = TEXT_IN(sentence);
        text_format(&text, "%s is not a setting", name);
        if (nearest)
            text_format(&text, "; did you mean %s%s?", PREFIX, nearest);
        else
            text_add(&text, "; `vramgc help settings` lists them");
        if (complain)
            complain(sentence, context);
        complaints++;
    }
    return complaints;
}

static void complain_about(const struct option_info *info, option_complain *complain,
                           void *context) {
    char typed[96], sentence[512];
    const char *value = getenv(info->variable);
    struct text text = TEXT_IN(typed);
    text_format(&text, "%s=%.60s", info->variable, value);
    option_refusal(info, typed, value, sentence, sizeof sentence);
    text = (struct text){sentence, sizeof sentence, strlen(sentence)};
    text_format(&text, "; using %s", *info->standard ? info->standard : "nothing");
    complain(sentence, context);
}

size_t options_read(struct options *options, enum option_origin *origins, option_complain *complain,
                    void *context) {
    size_t complaints = 0;
    options_defaults(options);
    for (size_t i = 0; i < option_count; i++) {
        const char *value = getenv(option_table[i].variable);
        enum option_origin origin = !value ? ORIGIN_DEFAULT
                                    : option_set(&option_table[i], value, options)
                                        ? ORIGIN_ENVIRONMENT
                                        : ORIGIN_INVALID;
        if (origin == ORIGIN_INVALID && complain)
            complain_about(&option_table[i], complain, context);
        complaints += origin == ORIGIN_INVALID;
        if (origins)
            origins[i] = origin;
    }
    return complaints + complain_about_unknown(complain, context);
}

static void add_choice_word(struct text *text, const char *words, int index) {
    while (index-- > 0) {
        words += strcspn(words, "|");
        words += *words == '|';
    }
    text_add_n(text, words, strcspn(words, "|"));
}

void option_show(const struct option_info *info, const struct options *options, char *out,
                 size_t capacity) {
    const void *field = (const char *)options + info->offset;
    struct text text = text_in(out, capacity);
    switch (info->type) {
    case BOOL:
        text_add(&text, *(const option_bool_t *)field ? "1" : "0");
        break;
    case PERCENT:
        text_add_decimal(&text, *(const option_percent_t *)field, 1);
        break;
    case AMOUNT:
    case SIZE:
    case COUNT: {
        uint64_t number = *(const option_number_t *)field;
        if (info->type == AMOUNT && amount_percent(number) > 0) {
            text_add_decimal(&text, amount_percent(number), 1);
            text_add(&text, "%");
            break;
        }
        bool small = info->type != COUNT && number > 0 && number < LEAST_BARE_BYTES;
        text_format(&text, "%lu%s", number, small ? "B" : "");
        break;
    }
    case DURATION: {
        uint64_t ns = *(const option_number_t *)field;
        text_format(&text, ns % SECOND_NS ? "%luus" : "%lus",
                    ns / (ns % SECOND_NS ? 1000 : SECOND_NS));
        break;
    }
    case CHOICE:
        add_choice_word(&text, info->words, *(const option_choice_t *)field);
        break;
    case TEXT: /* a command may hold a password, and reports are shared */
        text_add(&text, field == options->on && *options->on ? "(commands)" : field);
        break;
    }
}
