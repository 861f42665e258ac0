/* completion.c: see completion.h. Texts of the tables become literals of the shell: none of their
 * characters may mean anything to it. */
#include "cli/completion.h"
#include "cli/cli.h"

#include <ctype.h>
#include <string.h>

static void write_name(const char *name) {
    for (; *name; name++)
        fputc(*name == '_' ? '-' : *name, stdout);
}

/* A word that is typed as it stands; PATTERN, FILE, ... stand for something. */
static bool is_literal(const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!islower((unsigned char)word[i]) && !isdigit((unsigned char)word[i]))
            return false;
    return length > 0;
}

/* Those of off|observe|PATTERN, each with a space behind it; how many. */
static size_t write_choices(const struct flag *flag) {
    const char *word = flag->argument ? flag->argument + strspn(flag->argument, "[=") : "";
    size_t count = 0;
    while (*word) {
        size_t length = strcspn(word, "|]");
        if (is_literal(word, length) && strpbrk(flag->argument, "|")) {
            printf("%.*s ", (int)length, word);
            count++;
        }
        word += length;
        word += strspn(word, "|]");
    }
    return count;
}

/* Whether what follows is an argument of its own. */
static bool takes_word(const struct flag *flag) {
    return flag->argument && *flag->argument != '[';
}

/* ---- bash ---- */

static void bash_command(const struct command *command) {
    struct flag flags[FLAGS_MAX];
    size_t count = command_flags(command, flags);
    printf("    %s)\n        options='", command->name);
    for (size_t i = 0; i < count; i++) {
        fputs(i > 0 ? " --" : "--", stdout);
        write_name(flags[i].name);
    }
    fputs("'\n        case $previous in\n", stdout);
    for (size_t i = 0; i < count; i++) {
        if (!takes_word(&flags[i]))
            continue;
        fputs("            --", stdout);
        write_name(flags[i].name);
        if (flags[i].letter)
            printf(" | -%c", flags[i].letter);
        fputs(") words='", stdout);
        if (write_choices(&flags[i]) == 0)
            fputs("' files=yes; ;;\n", stdout);
        else
            fputs("' ;;\n", stdout);
    }
    printf("            *) files=yes; [[ $word == -* ]] && words=$options ;;\n        esac\n"
           "        ;;\n");
}

void completion_bash(void) {
    fputs("# bash completion of vramgc, written by `vramgc help completion-bash`\n"
          "_vramgc() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local options='' words='' files=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words='",
          stdout);
    for (size_t i = 0; commands[i]; i++)
        printf("%s%s", i > 0 ? " " : "", commands[i]->name);
    fputs("'\n    else\n    case ${COMP_WORDS[1]} in\n", stdout);
    for (size_t i = 0; commands[i]; i++)
        bash_command(commands[i]);
    fputs("    esac\n    fi\n"
          "    while IFS= read -r line; do COMPREPLY+=(\"$line\"); done < <(\n"
          "        [ -z \"$words\" ] || compgen -W \"$words\" -- \"$word\"\n"
          "        [ -z \"$files\" ] || [[ $word == -* ]] || compgen -f -- \"$word\"\n"
          "        [ \"${COMP_WORDS[1]}\" != run ] || [ -z \"$files\" ] || [[ $word == -* ]] || "
          "compgen -c -- \"$word\")\n"
          "}\n"
          "complete -o filenames -F _vramgc vramgc\n",
          stdout);
}

/* ---- zsh ---- */

/* In single quotes; marks: characters that _arguments or _describe take for theirs. */
static void zsh_text(const char *text, const char *marks) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(marks, *text))
            printf("\\%c", *text);
        else
            fputc(*text, stdout);
}

static void zsh_option(const struct flag *flag) {
    fputs(" \\\n            '--", stdout);
    write_name(flag->name);
    fputs(!flag->argument ? "[" : takes_word(flag) ? "=[" : "=-[", stdout);
    zsh_text(flag->help, "[]:\\");
    fputc(']', stdout);
    if (flag->argument) {
        fputs(takes_word(flag) ? ":value:" : "::value:", stdout);
        fputs(strchr(flag->argument, '|') ? "(" : "_files", stdout);
        if (strchr(flag->argument, '|')) {
            write_choices(flag);
            fputc(')', stdout);
        }
        fputc('\'', stdout);
    } else {
        fputc('\'', stdout);
    }
}

void completion_zsh(void) {
    fputs("#compdef vramgc\n# zsh completion of vramgc, written by `vramgc help completion-zsh`\n"
          "_vramgc() {\n    local -a commands\n    commands=(\n",
          stdout);
    for (size_t i = 0; commands[i]; i++) {
        printf("        '%s:", commands[i]->name);
        zsh_text(commands[i]->summary, ":\\");
        fputs("'\n", stdout);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
          "        return\n    fi\n    ((CURRENT--))\n    shift words\n    case $words[1] in\n",
          stdout);
    for (size_t i = 0; commands[i]; i++) {
        struct flag flags[FLAGS_MAX];
        size_t options = command_flags(commands[i], flags);
        bool runs = strcmp(commands[i]->name, "run") == 0;
        printf("    %s)\n        _arguments -S", commands[i]->name);
        for (size_t j = 0; j < options; j++)
            zsh_option(&flags[j]);
        printf(" \\\n            '%s'\n        ;;\n",
               runs ? "*::command:_normal" : "*:file:_files");
    }
    fputs("    esac\n}\n_vramgc \"$@\"\n", stdout);
}

/* ---- fish ---- */

static void fish_text(const char *text) {
    fputc('\'', stdout);
    for (; *text; text++)
        if (*text == '\'' || *text == '\\')
            printf("\\%c", *text);
        else
            fputc(*text, stdout);
    fputc('\'', stdout);
}

static void fish_option(const char *command, const struct flag *flag) {
    printf("complete -c vramgc -n '__fish_seen_subcommand_from %s' -l ", command);
    write_name(flag->name);
    if (flag->letter)
        printf(" -s %c", flag->letter);
    if (takes_word(flag)) {
        fputs(" -r -a '", stdout);
        write_choices(flag);
        fputc('\'', stdout);
    }
    fputs(" -d ", stdout);
    fish_text(flag->help);
    fputc('\n', stdout);
}

void completion_fish(void) {
    fputs("# fish completion of vramgc, written by `vramgc help completion-fish`\n", stdout);
    for (size_t i = 0; commands[i]; i++) {
        struct flag flags[FLAGS_MAX];
        size_t options = command_flags(commands[i], flags);
        printf("complete -c vramgc -n __fish_use_subcommand -f -a %s -d ", commands[i]->name);
        fish_text(commands[i]->summary);
        fputc('\n', stdout);
        for (size_t j = 0; j < options; j++)
            fish_option(commands[i]->name, &flags[j]);
    }
}
