/* cli.c: see cli.h. It knows no option of any command but --help. */
#include "cli/cli.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/text.h"
#include "judge/alert.h"
#include "read/complain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- options ---- */

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

/* Options of several commands are tested for these. */
static bool is_possible_value(const struct args *args) {
    const struct flag *flag = args->flag;
    if (flag->every_ns &&
        (!parse_duration(args->value, flag->every_ns) || *flag->every_ns < 100 * MILLISECOND_NS))
        complain("--%s %s is no duration of at least 100ms", flag->name, args->value);
    else if (strchr(flag->argument, '|') && parse_choice(args->value, flag->argument) < 0)
        complain("--%s %s is not one of %s", flag->name, args->value, flag->argument);
    else
        return true;
    return false;
}

/* Does what the option is for. What it needs and has not is the following argument. */
static bool take_option(struct args *args, const char *shown) {
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
    if ((flag->value || flag->every_ns) && !is_possible_value(args))
        return false;
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
    return take_option(args, argument);
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
    return take_option(args, shown);
}

static bool option(struct args *args, const char *argument) {
    args->typed = argument;
    if (argument[1] == '-')
        return long_option(args, argument);
    args->cluster = argument + 1;
    return short_option(args);
}

/* Reads up to the first option that is *stop, or to the end. False after a complaint. At the end
 * the operands are argv[0 .. operand_count), or argv[next ..] with stop_at_operand. */
static bool args_read(struct args *args, const bool *stop) {
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

/* ---- settings ---- */

const char *settings_argument(const struct option_info *info) {
    static const char *const forms[TEXT + 1] = {
        [BOOL] = "[=0|1]",          [PERCENT] = "PERCENT",   [SIZE] = "SIZE",
        [AMOUNT] = "SIZE|PERCENT%", [DURATION] = "DURATION", [COUNT] = "N"};
    return forms[info->type] ? forms[info->type] : info->words;
}

static bool typed[FLAGS_MAX]; /* by the number of the setting */

static bool enter_setting(const struct option_info *info, const char *value) {
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
                strlen(all) < OPTION_TEXT_BYTES && enter_setting(info, all);
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
        return enter_setting(info, value);
    char shown[96], sentence[512];
    struct text text = TEXT_IN(shown);
    text_format(&text, "%.60s%s%s", args->typed, args->value_apart ? " " : "",
                args->value_apart ? value : "");
    option_refusal(info, shown, value, sentence, sizeof sentence);
    complain("%s", sentence);
    return false;
}

static const char *give_back;

static bool take_give_back(const struct args *args) {
    (void)args;
    return enter_setting(settings_find("lowvram"), strcmp(give_back, "at-once") == 0 ? "1" : "0");
}

/* Web UIs have a --lowvram of their own, which is slow: these are other words for ours. */
static const struct flag words[] = {
    {"give-back", 0, "threshold|at-once",
     "when idle memory goes back. threshold: while the card is fuller than --threshold, as without "
     "--lowvram. at-once: always, as with --lowvram. No model is moved to RAM",
     .value = &give_back, .take = take_give_back},
};

size_t settings_flags(struct flag *flags, size_t capacity) {
    size_t count = 0;
    for (size_t i = 0; i < option_count && count < capacity; i++) {
        const char *name = option_table[i].name, *argument = settings_argument(&option_table[i]);
        char letter = strcmp(name, "threshold") == 0 ? 't' : strcmp(name, "out") == 0 ? 'o' : 0;
        flags[count++] = (struct flag){name, letter, *argument ? argument : "TEXT",
                                       option_table[i].help, .take = settings_take};
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

void settings_read_environment(struct options *options) {
    enum option_origin origins[FLAGS_MAX];
    options_read(options, origins, complain_about_setting, NULL);
    for (size_t i = 0; i < option_count; i++)
        if (origins[i] == ORIGIN_INVALID)
            unsetenv(option_table[i].variable);
    while (remove_unknown())
        continue;
}

/* ---- commands ---- */

const struct command *const *commands;

const struct command *command_find(const char *name) {
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static bool help;

size_t command_flags(const struct command *command, struct flag *flags) {
    size_t count = command->flag_count;
    if (count > 0)
        memcpy(flags, command->flags, count * sizeof *flags);
    flags[count++] = (struct flag){"help", 'h', NULL, "this text", .on = &help};
    return command->takes_settings ? count + settings_flags(flags + count, FLAGS_MAX - count)
                                   : count;
}

static bool has_its_operands(const struct command *command, const struct args *args) {
    bool empty = false;
    for (int i = 0; command->lacking && i < args->operand_count; i++)
        empty = empty || !*args->argv[i];
    return !empty && args->operand_count >= command->least &&
           (command->most == 0 || args->operand_count <= command->most);
}

int command_run(const struct command *command, int argc, char **argv, bool *wants_help) {
    struct flag flags[FLAGS_MAX];
    struct args args = {.argc = argc,
                        .argv = argv,
                        .flags = flags,
                        .flag_count = command_flags(command, flags),
                        .stop_at_operand = command->takes_command,
                        .command = command->name,
                        .next = 1};
    if (!command->takes_any_word && !args_read(&args, &help))
        return command->wrong_call ? command->wrong_call : STATUS_USAGE;
    *wants_help = help;
    if (help)
        return STATUS_FINE;
    if (args.operand_count > 0 && !*command->operands) {
        complain("%s is too much; `vramgc %s` takes options only", argv[0], command->name);
        return STATUS_USAGE;
    }
    if (!has_its_operands(command, &args)) {
        complain("%s vramgc %s %s", command->lacking, command->name, command->operands);
        return STATUS_USAGE;
    }
    return command->main(&args);
}

/* ---- processes and signals ---- */

pid_t start_apart(const char *const *words) {
    pid_t child = fork();
    if (child != 0)
        return child;
    int nothing = open("/dev/null", O_RDWR);
    for (int standard = 0; standard <= 2; standard++)
        dup2(nothing, standard);
    setsid();
    execvp(words[0], (char *const *)words);
    _exit(STATUS_MISSING);
}

static volatile sig_atomic_t stopped;

static void note_stop(int number) {
    stopped = number;
}

const volatile sig_atomic_t *stop_catch(void) {
    struct sigaction action = {.sa_handler = note_stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    return &stopped;
}

void stop_end(void) {
    if (!stopped)
        return;
    fflush(NULL);
    signal(stopped, SIG_DFL);
    raise(stopped);
}
