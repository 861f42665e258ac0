/* args.c: see args.h. */
#include "cli/args.h"
#include "base/parse.h"
#include "read/complain.h"
#include "base/base.h"
#include "base/text.h"

#include <string.h>

static char dashed(char c) {
    return c == '_' ? '-' : c;
}

static bool same_name(const char *typed, size_t length, const char *name) {
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (dashed(typed[i]) != dashed(name[i]))
            return false;
    return true;
}

static const struct flag *find_long(const struct args *args, const char *typed, size_t length) {
    for (size_t i = 0; i < args->flag_count; i++)
        if (same_name(typed, length, args->flags[i].name))
            return &args->flags[i];
    return NULL;
}

static const struct flag *find_letter(const struct args *args, char letter) {
    for (size_t i = 0; i < args->flag_count; i++)
        if (args->flags[i].letter == letter)
            return &args->flags[i];
    return NULL;
}

/* nearest_word() knows no context, and there is one command line in a process. */
static struct { const struct flag *flags; } lookup;

static const char *flag_name(size_t index) {
    return lookup.flags[index].name;
}

/* As the help has it: --min-gain. */
static const char *as_shown(const char *flag, char *shown, size_t capacity) {
    struct text text = text_in(shown, capacity);
    text_add(&text, flag);
    for (char *c = shown; *c; c++)
        *c = dashed(*c);
    return shown;
}

static bool unknown(const struct args *args, const char *argument) {
    char name[64] = "", shown[64];
    strncat(name, argument, min_u64(strcspn(argument, "="), sizeof name - 1));
    lookup.flags = args->flags;
    const char *word = name + strspn(name, "-"); /* -mode is meant as --mode, too */
    const char *nearest = word[1] ? nearest_word(word, args->flag_count, flag_name) : NULL;
    if (nearest)
        complain("%s is not an option of `vramgc %s`; did you mean --%s?", name, args->command,
                 as_shown(nearest, shown, sizeof shown));
    else
        complain("%s is not an option of `vramgc %s`; see `vramgc help %s`", name, args->command,
                 args->command);
    return false;
}

static bool needs_value(const struct flag *flag) {
    return flag->argument && flag->argument[0] != '[';
}

/* Does what the option is for. What it needs and has not is the following argument. */
static bool take(struct args *args, const char *shown) {
    const struct flag *flag = args->flag;
    args->value_apart = needs_value(flag) && !args->value;
    if (args->value_apart && args->next >= args->argc) {
        complain("%s needs a value: %s; see `vramgc help %s`", shown, flag->argument,
                 args->command);
        return false;
    }
    if (args->value_apart)
        args->value = args->argv[args->next++];
    if (flag->on)
        *flag->on = true;
    if (flag->value)
        *flag->value = args->value;
    return !flag->take || flag->take(args);
}

static bool long_option(struct args *args, const char *argument) {
    const char *equals = strchrnul(argument, '=');
    args->flag = find_long(args, argument + 2, (size_t)(equals - argument) - 2);
    if (!args->flag)
        return unknown(args, argument);
    if (*equals && !args->flag->argument) {
        complain("--%s takes no value; see `vramgc help %s`", args->flag->name, args->command);
        return false;
    }
    args->value = *equals ? equals + 1 : NULL;
    return take(args, argument);
}

/* The first letter of the cluster. */
static bool short_option(struct args *args) {
    char shown[] = {'-', *args->cluster++, 0};
    args->flag = find_letter(args, shown[1]);
    args->value = NULL;
    if (!args->flag)
        return unknown(args, args->cluster == args->typed + 2 ? args->typed : shown);
    if (*args->cluster && needs_value(args->flag)) {
        args->value = args->cluster;
        args->cluster = "";
    }
    return take(args, shown);
}

static bool option(struct args *args, const char *argument) {
    args->typed = argument;
    if (argument[1] == '-')
        return long_option(args, argument);
    args->cluster = argument + 1;
    return short_option(args);
}

bool args_read(struct args *args, const bool *stop) {
    bool fine = true, only_operands = false;
    args->cluster = "";
    while (fine && !*stop && (*args->cluster || args->next < args->argc)) {
        char *argument = args->argv[args->next];
        if (*args->cluster) {
            fine = short_option(args);
        } else if (!only_operands && strcmp(argument, "--") == 0) {
            args->next++;
            only_operands = true;
        } else if (!only_operands && argument[0] == '-' && argument[1]) {
            args->next++;
            fine = option(args, argument);
        } else if (args->stop_at_operand) {
            break;
        } else {
            args->argv[args->operand_count++] = argument;
            args->next++;
        }
    }
    return fine;
}

void args_heading(const struct flag *flag, char *out, size_t capacity) {
    struct text text = text_in(out, capacity);
    if (flag->letter)
        text_format(&text, "-%c, ", flag->letter);
    text_add(&text, "--");
    for (const char *c = flag->name; *c; c++)
        text_add_n(&text, *c == '_' ? "-" : c, 1);
    if (flag->argument && *flag->argument != '[')
        text_add(&text, " ");
    if (flag->argument)
        text_add(&text, flag->argument);
}

bool args_paragraph(const char **details, struct paragraph *out) {
    size_t length = strcspn(*details, "\n");
    struct text text = TEXT_IN(out->text);
    if (!**details)
        return false;
    text_add_n(&text, *details, length);
    *details += length + ((*details)[length] == '\n');
    char *tab = strchr(out->text, '\t');
    out->behind = tab ? tab + 1 : NULL;
    if (tab)
        *tab = 0;
    return true;
}
