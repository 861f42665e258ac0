/* alert.c: see alert.h. It must say what the report says of the same record, in its words; and take
 * no rule that would not do what it says: an alert that never comes is noticed too late. */
#include "judge/alert.h"
#include "judge/growers.h"
#include "judge/sentences.h"
#include "judge/tally.h"
#include "judge/verdict.h"
#include "read/derived.h"
#include "read/stats_file.h"
#include "read/units.h"
#include "base/parse.h"
#include "base/standards.h"

#include <string.h>

/* ---- the rules ---- */

#define SPACE " \t\r"

/* Without the spaces around it. */
static char *trimmed(char *word) {
    word += strspn(word, SPACE);
    for (size_t end = strlen(word); end > 0 && strchr(SPACE, word[end - 1]);)
        word[--end] = 0;
    return word;
}

static bool read_when(struct alert_rule *rule, const char *word) {
    static const char words[] = "oom|growth";
    int kind = parse_choice(word, words);
    text_copy(rule->when, sizeof rule->when, word);
    rule->kind = kind < 0 ? ALERT_USE : (enum alert_kind)kind;
    return kind >= 0 || (strchr(word, '%') && parse_percent(word, &rule->percent) &&
                         rule->percent >= 1 && rule->percent <= 100);
}

static bool add_rule(struct alert_rules *rules, char *whens, struct alert_rule rule,
                     struct text *why) {
    for (char *word; (word = strsep(&whens, "|"));) {
        word = trimmed(word);
        if (!read_when(&rule, word))
            text_format(why, "%.40s is not oom, growth or a percentage such as 90%%", word);
        else if (rules->count == ALERT_RULES_MAX)
            text_format(why, "there are more than %d rules", ALERT_RULES_MAX);
        else
            rules->list[rules->count++] = rule;
        if (why->length)
            return false;
    }
    return true;
}

/* "it's" is a program's name, too. */
static bool has_quoted_word(const char *command) {
    for (const char *at = command; (at = strpbrk(at, "\"'")); at++)
        if (at == command || strchr(SPACE "=", at[-1]))
            return true;
    return false;
}

/* At the beginning of a word: an & or $ within an address is part of it. */
static bool has_word_for_shell(const char *command) {
    for (const char *at = command; *at; at += strcspn(at, SPACE)) {
        at += strspn(at, SPACE);
        if (*at && strchr("><|&$~", *at))
            return true;
    }
    return false;
}

static void say_no_command(const char *when, struct text *why) {
    text_format(why, "%.40s has no command, as in '%.40s:notify-send vramgc {}'", when, when);
}

static void check_command(const struct alert_rule *rule, const char *when, struct text *why) {
    if (!*rule->command)
        say_no_command(when, why);
    else if (rule->shell && strstr(rule->command, "{}"))
        text_add(why, "{} is not replaced behind !: use \"$VRAMGC_ALERT_MESSAGE\"");
    else if (!rule->shell && has_quoted_word(rule->command))
        text_add(why, "quotes need ! in front of the command, for a shell to read them");
    else if (!rule->shell && has_word_for_shell(rule->command))
        text_add(why, "> | & $ and ~ need ! in front of the command, for a shell to read them");
}

/* One rule, and where the next begins; NULL: it is wrong. */
static char *read_rule(struct alert_rules *rules, char *at, struct text *why) {
    char *colon = at + strcspn(at, ":;\n");
    if (*colon != ':') {
        struct alert_rule none;
        *colon = 0;
        if (read_when(&none, trimmed(at)))
            say_no_command(at, why);
        else
            text_format(why, "%.40s is not WHEN:COMMAND, as in 'oom:notify-send vramgc {}'", at);
        return NULL;
    }
    char *command = colon + 1 + strspn(colon + 1, SPACE);
    struct alert_rule rule = {.shell = *command == '!'};
    command += rule.shell;
    char *end = command + strcspn(command, rule.shell ? "\n" : ";\n");
    char *next = *end ? end + 1 : end;
    *colon = *end = 0;
    rule.command = trimmed(command);
    check_command(&rule, at, why);
    return !why->length && add_rule(rules, at, rule, why) ? next : NULL;
}

bool alert_rules_read(struct alert_rules *rules, const char *value, char *why, size_t capacity) {
    struct text text = text_in(why, capacity);
    *rules = (struct alert_rules){0};
    text_copy(rules->text, sizeof rules->text, value);
    char *at = rules->text;
    while (at && *(at += strspn(at, SPACE ";\n")))
        at = read_rule(rules, at, &text);
    return at;
}

/* ---- what happens ---- */

/* A card is told of again once its use has fallen so far below. */
#define BELOW_PERCENT HYSTERESIS_PERCENT

static void tell_rules(const struct alert_rules *rules, enum alert_kind kind, struct alert *alert,
                       alert_take *take) {
    for (alert->rule = 0; alert->rule < rules->count; alert->rule++)
        if (rules->list[alert->rule].kind == kind)
            take(alert);
}

/* Whoever is told may run several. */
static struct text begin_message(struct alert *alert) {
    struct text text = TEXT_IN(alert->message);
    program_name(alert->record->file, &text);
    text_format(&text, " (pid %lu): ", alert->record->file->pid);
    return text;
}

/* Of several sentences the first: a notification has room for what happened and what helps. */
static void add_first(struct text *text, const char *before, const char *sentences) {
    const char *end = strstr(sentences, ". ");
    if (*sentences)
        text_add(text, before);
    text_add_n(text, sentences, end ? (size_t)(end - sentences) + 1 : strlen(sentences));
}

/* Whoever is told now needs no time since the program began, nor how often it was told before. */
static void write_oom_message(struct alert *alert, struct stats_file *record,
                              const struct tally *tally) {
    struct verdict verdict = verdict_of(&record, 1);
    struct text text = begin_message(alert);
    text_add_n(&text, verdict.what, verdict.count);
    alert->count = text.length;
    text_add(&text, show_count(alert->times).text);
    alert->count_length = text.length - alert->count;
    text_format(&text, "x%s", verdict.what + verdict.clock + verdict.clock_length);
    add_first(&text, " ", verdict.cause);
    add_first(&text, " Do: ", verdict.todo);
    const struct vramgc_refusal *refusal = tally->failed_refusal;
    alert->request_bytes = refusal ? refusal->request_bytes : 0;
    if (refusal && refusal->cause != VRAMGC_CAUSE_HOST)
        alert->device = &record->file->devices[refusal->device];
}

static void look_for_oom(const struct alert_rules *rules, struct alert_seen *seen,
                         struct stats_file *record, bool last, alert_take *take) {
    struct tally tally = tally_of(&record, 1);
    uint64_t ooms = tally_all_went_on(&tally) ? 0 : tally_ooms(&tally);
    uint64_t sure = last ? ooms : min_u64(ooms, seen->ooms_before);
    struct alert alert = {.record = record, .times = minus_u64(sure, seen->ooms_told)};
    seen->ooms_before = ooms;
    if (sure <= seen->ooms_told)
        return;
    seen->ooms_told = sure;
    write_oom_message(&alert, record, &tally);
    tell_rules(rules, ALERT_OOM, &alert, take);
}

static void look_for_growth(const struct alert_rules *rules, struct alert_seen *seen,
                            const struct stats_file *record, alert_take *take) {
    for (size_t i = 0; i < record->file->device_count; i++) {
        const struct vramgc_device *device = &record->file->devices[i];
        struct oom_growth growth = growth_of(record, device);
        struct alert alert = {.record = record, .device = device, .times = 1};
        if (!growth.grows || seen->grows[i])
            continue;
        seen->grows[i] = true;
        struct text text = begin_message(&alert);
        text_format(&text, "GPU %zu: live memory grows: ", i);
        growth_say(&text, record->file, device, &growth);
        text_add(&text, ". " FIND_WHAT_IS_KEPT);
        tell_rules(rules, ALERT_GROWTH, &alert, take);
    }
    struct alert alert = {.record = record, .times = 1};
    struct text text = begin_message(&alert);
    struct facts facts;
    facts_begin(&facts, RISES);
    facts_of_growth(&facts, record, false);
    if (seen->host_grows || !facts.has)
        return;
    text.data[--text.length] = 0; /* what follows begins with a space */
    sentences_say(&text, SAY_WHAT, &facts);
    sentences_say(&text, SAY_DO, &facts);
    seen->host_grows = true;
    tell_rules(rules, ALERT_GROWTH, &alert, take);
}

/* The parts are those of now. */
static void say_use(struct alert *alert, size_t index, double highest, double now) {
    const struct vramgc_device *device = alert->device;
    struct division parts = division_at_end(device);
    struct text text = begin_message(alert);
    bool is_over = highest - now >= 1;
    text_format(&text, "GPU %zu: ", index);
    text_add_decimal(&text, highest, 0);
    text_format(&text, " %% of %s %s in use", show_bytes(device->total_bytes).text,
                is_over ? "were" : "are");
    if (is_over) {
        text_add(&text, " for a moment; now ");
        text_add_decimal(&text, now, 0);
        text_add(&text, " % are");
    }
    if (parts.known)
        text_format(&text, ": %s by this program, %s by others and the driver; %s are free",
                    show_bytes(parts.held_bytes).text, show_bytes(parts.others_bytes).text,
                    show_bytes(parts.free_bytes).text);
    text_add(&text, ".");
}

/* Short peaks between two looks count, too. */
static void look_at_use(const struct alert_rules *rules, struct alert_seen *seen,
                        const struct stats_file *record, size_t index, alert_take *take) {
    const struct vramgc_device *device = &record->file->devices[index];
    const struct vramgc_gauge *used = &device->stats.used_bytes;
    if (!device->present || !device->total_bytes)
        return;
    bool higher = used->peak > seen->used_peak_bytes[index];
    double to_percent = 100 / (double)device->total_bytes;
    double now = (double)used->current * to_percent;
    double highest = higher ? (double)used->peak * to_percent : now;
    seen->used_peak_bytes[index] = used->peak;
    for (size_t i = 0; i < rules->count; i++) {
        struct alert alert = {.rule = i, .record = record, .device = device, .times = 1};
        bool *above = &seen->above[i][index];
        if (rules->list[i].kind != ALERT_USE)
            continue;
        if (!*above && highest >= rules->list[i].percent) {
            say_use(&alert, index, highest, now);
            take(&alert);
            *above = true;
        }
        *above = *above && now > rules->list[i].percent - BELOW_PERCENT;
    }
}

/* Of a program that had begun before us only what it is now is told. */
static void begin_seen(struct alert_seen *seen, struct stats_file *record, uint64_t since_ns) {
    seen->begun = true;
    if (record->file->started_ns >= since_ns)
        return;
    struct tally tally = tally_of(&record, 1);
    seen->ooms_told = seen->ooms_before = tally_ooms(&tally);
    for (size_t i = 0; i < record->file->device_count; i++)
        seen->used_peak_bytes[i] = record->file->devices[i].stats.used_bytes.peak;
}

void alert_look(const struct alert_rules *rules, struct alert_seen *seen, struct stats_file *record,
                uint64_t since_ns, bool last, alert_take *take) {
    if (!seen->begun)
        begin_seen(seen, record, since_ns);
    look_for_oom(rules, seen, record, last, take);
    look_for_growth(rules, seen, record, take);
    for (size_t i = 0; i < record->file->device_count; i++)
        look_at_use(rules, seen, record, i, take);
}
