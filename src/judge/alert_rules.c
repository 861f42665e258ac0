/* alert_rules.c: see alert_rules.h. It must take nothing that would not do what it says: an alert
 * that never comes is noticed too late. */
#include "judge/alert_rules.h"
#include "base/parse.h"
#include "base/text.h"

#include <string.h>

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

static bool add(struct alert_rules *rules, char *whens, struct alert_rule rule, struct text *why) {
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
static char *read_one(struct alert_rules *rules, char *at, struct text *why) {
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
    return !why->length && add(rules, at, rule, why) ? next : NULL;
}

bool alert_rules_read(struct alert_rules *rules, const char *value, char *why, size_t capacity) {
    struct text text = text_in(why, capacity);
    *rules = (struct alert_rules){0};
    text_copy(rules->text, sizeof rules->text, value);
    char *at = rules->text;
    while (at && *(at += strspn(at, SPACE ";\n")))
        at = read_one(rules, at, &text);
    return at;
}
