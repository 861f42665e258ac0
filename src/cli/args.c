/* args.c: see args.h. */
#include "cli/args.h"
#include "read/complain.h"
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

static int find_long(const struct args *args, const char *typed, size_t length) {
    for (size_t i = 0; i < args->flag_count; i++)
        if (same_name(typed, length, args->flags[i].name))
            return (int)i;
    return ARGS_BAD;
}

static int find_letter(const struct args *args, char letter) {
    for (size_t i = 0; i < args->flag_count; i++)
        if (args->flags[i].letter == letter)
            return (int)i;
    return ARGS_BAD;
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

static int unknown(const struct args *args, const char *argument) {
    char name[64], shown[64];
    size_t length = strcspn(argument, "=");
    if (length >= sizeof name)
        length = sizeof name - 1;
    memcpy(name, argument, length);
    name[length] = 0;
    lookup.flags = args->flags;
    const char *nearest =
        name[1] == '-' ? nearest_word(name + 2, args->flag_count, flag_name) : NULL;
    if (nearest)
        complain("%s is not an option of `vramgc %s`; did you mean --%s?", name, args->command,
                 as_shown(nearest, shown, sizeof shown));
    else
        complain("%s is not an option of `vramgc %s`; see `vramgc help %s`", name, args->command,
                 args->command);
    return ARGS_BAD;
}

static bool is_optional(const struct flag *flag) {
    return flag->argument && flag->argument[0] == '[';
}

/* Gives the option its value from the following argument, if it needs one. */
static int with_value(struct args *args, int index, const char *shown) {
    const struct flag *flag = &args->flags[index];
    if (args->value || !flag->argument || is_optional(flag))
        return index;
    if (args->next >= args->argc) {
        complain("%s needs a value: %s; see `vramgc help %s`", shown, flag->argument,
                 args->command);
        return ARGS_BAD;
    }
    args->value = args->argv[args->next++];
    args->value_apart = true;
    return index;
}

static int long_option(struct args *args, const char *argument) {
    const char *equals = strchr(argument, '=');
    size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
    int index = find_long(args, argument + 2, length - 2);
    if (index == ARGS_BAD)
        return unknown(args, argument);
    if (equals && !args->flags[index].argument) {
        complain("--%s takes no value; see `vramgc help %s`", args->flags[index].name,
                 args->command);
        return ARGS_BAD;
    }
    args->value = equals ? equals + 1 : NULL;
    return with_value(args, index, argument);
}

static int short_option(struct args *args) {
    char shown[] = {'-', *args->cluster, 0};
    int index = find_letter(args, *args->cluster);
    if (index == ARGS_BAD)
        return unknown(args, shown);
    args->cluster++;
    args->value = NULL;
    if (args->flags[index].argument && !is_optional(&args->flags[index])) {
        if (*args->cluster)
            args->value = args->cluster;
        args->cluster = NULL;
        return with_value(args, index, shown);
    }
    if (!*args->cluster)
        args->cluster = NULL;
    return index;
}

static int rest_are_operands(struct args *args) {
    while (!args->stop_at_operand && args->next < args->argc)
        args->argv[args->operand_count++] = args->argv[args->next++];
    return ARGS_END;
}

int args_next(struct args *args) {
    args->value_apart = false;
    if (args->cluster)
        return short_option(args);
    while (args->next < args->argc) {
        char *argument = args->argv[args->next];
        if (strcmp(argument, "--") == 0) {
            args->next++;
            return rest_are_operands(args);
        }
        if (argument[0] == '-' && argument[1]) {
            args->next++;
            args->typed = argument;
            if (argument[1] == '-')
                return long_option(args, argument);
            args->cluster = argument + 1;
            return short_option(args);
        }
        if (args->stop_at_operand)
            return ARGS_END;
        args->argv[args->operand_count++] = argument;
        args->next++;
    }
    return ARGS_END;
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
