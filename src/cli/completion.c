/* completion.c: see completion.h. Texts of the tables become literals of the shell: none of their
 * characters may mean anything to it. */
#include "cli/completion.h"
#include "cli/settings.h"
#include "base/base.h"

#include <ctype.h>
#include <string.h>

/* The options of a command, with the settings where it takes them. */
static size_t options_of(const struct command *command, struct flag *flags) {
    size_t count = 0;
    if (command->takes_settings)
        return settings_flags(flags, command->flags, *command->flag_count);
    for (; count < *command->flag_count && count < SETTINGS_MAX; count++)
        flags[count] = command->flags[count];
    return count;
}

static void write_name(FILE *out, const char *name) {
    for (; *name; name++)
        fputc(*name == '_' ? '-' : *name, out);
}

/* A word that is typed as it stands; PATTERN, FILE, ... stand for something. */
static bool is_literal(const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!islower((unsigned char)word[i]) && !isdigit((unsigned char)word[i]))
            return false;
    return length > 0;
}

/* Those of off|observe|PATTERN, each with a space behind it; how many. */
static size_t write_choices(FILE *out, const struct flag *flag) {
    const char *word = flag->argument ? flag->argument + strspn(flag->argument, "[=") : "";
    size_t count = 0;
    while (*word) {
        size_t length = strcspn(word, "|]");
        if (is_literal(word, length) && strpbrk(flag->argument, "|")) {
            fprintf(out, "%.*s ", (int)length, word);
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

static void bash_command(FILE *out, const struct command *command) {
    struct flag flags[SETTINGS_MAX];
    size_t count = options_of(command, flags);
    fprintf(out, "    %s)\n        options='", command->name);
    for (size_t i = 0; i < count; i++) {
        fputs(i > 0 ? " --" : "--", out);
        write_name(out, flags[i].name);
    }
    fputs("'\n        case $previous in\n", out);
    for (size_t i = 0; i < count; i++) {
        if (!takes_word(&flags[i]))
            continue;
        fputs("            --", out);
        write_name(out, flags[i].name);
        if (flags[i].letter)
            fprintf(out, " | -%c", flags[i].letter);
        fputs(") words='", out);
        if (write_choices(out, &flags[i]) == 0)
            fputs("' files=yes; ;;\n", out);
        else
            fputs("' ;;\n", out);
    }
    fprintf(out, "            *) files=yes; [[ $word == -* ]] && words=$options ;;\n        esac\n"
                 "        ;;\n");
}

void completion_bash(FILE *out, const struct command *commands, size_t count) {
    fputs("# bash completion of vramgc, written by `vramgc help completion-bash`\n"
          "_vramgc() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local options='' words='' files=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words='",
          out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", commands[i].name);
    fputs("'\n    else\n    case ${COMP_WORDS[1]} in\n", out);
    for (size_t i = 0; i < count; i++)
        bash_command(out, &commands[i]);
    fputs("    esac\n    fi\n"
          "    while IFS= read -r line; do COMPREPLY+=(\"$line\"); done < <(\n"
          "        [ -z \"$words\" ] || compgen -W \"$words\" -- \"$word\"\n"
          "        [ -z \"$files\" ] || [[ $word == -* ]] || compgen -f -- \"$word\"\n"
          "        [ \"${COMP_WORDS[1]}\" != run ] || [ -z \"$files\" ] || [[ $word == -* ]] || "
          "compgen -c -- \"$word\")\n"
          "}\n"
          "complete -o filenames -F _vramgc vramgc\n",
          out);
}

/* ---- zsh ---- */

/* In single quotes; marks: characters that _arguments or _describe take for theirs. */
static void zsh_text(FILE *out, const char *text, const char *marks) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr(marks, *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

static void zsh_option(FILE *out, const struct flag *flag) {
    fputs(" \\\n            '--", out);
    write_name(out, flag->name);
    fputs(!flag->argument ? "[" : takes_word(flag) ? "=[" : "=-[", out);
    zsh_text(out, flag->help, "[]:\\");
    fputc(']', out);
    if (flag->argument) {
        fputs(takes_word(flag) ? ":value:" : "::value:", out);
        fputs(strchr(flag->argument, '|') ? "(" : "_files", out);
        if (strchr(flag->argument, '|')) {
            write_choices(out, flag);
            fputc(')', out);
        }
        fputc('\'', out);
    } else {
        fputc('\'', out);
    }
}

void completion_zsh(FILE *out, const struct command *commands, size_t count) {
    fputs("#compdef vramgc\n# zsh completion of vramgc, written by `vramgc help completion-zsh`\n"
          "_vramgc() {\n    local -a commands\n    commands=(\n",
          out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "        '%s:", commands[i].name);
        zsh_text(out, commands[i].summary, ":\\");
        fputs("'\n", out);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
          "        return\n    fi\n    ((CURRENT--))\n    shift words\n    case $words[1] in\n",
          out);
    for (size_t i = 0; i < count; i++) {
        struct flag flags[SETTINGS_MAX];
        size_t options = options_of(&commands[i], flags);
        bool runs = strcmp(commands[i].name, "run") == 0;
        fprintf(out, "    %s)\n        _arguments -S", commands[i].name);
        for (size_t j = 0; j < options; j++)
            zsh_option(out, &flags[j]);
        fprintf(out, " \\\n            '%s'\n        ;;\n",
                runs ? "*::command:_normal" : "*:file:_files");
    }
    fputs("    esac\n}\n_vramgc \"$@\"\n", out);
}

/* ---- fish ---- */

static void fish_text(FILE *out, const char *text) {
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    fputc('\'', out);
}

static void fish_option(FILE *out, const char *command, const struct flag *flag) {
    fprintf(out, "complete -c vramgc -n '__fish_seen_subcommand_from %s' -l ", command);
    write_name(out, flag->name);
    if (flag->letter)
        fprintf(out, " -s %c", flag->letter);
    if (takes_word(flag)) {
        fputs(" -r -a '", out);
        write_choices(out, flag);
        fputc('\'', out);
    }
    fputs(" -d ", out);
    fish_text(out, flag->help);
    fputc('\n', out);
}

void completion_fish(FILE *out, const struct command *commands, size_t count) {
    fputs("# fish completion of vramgc, written by `vramgc help completion-fish`\n", out);
    for (size_t i = 0; i < count; i++) {
        struct flag flags[SETTINGS_MAX];
        size_t options = options_of(&commands[i], flags);
        fprintf(out, "complete -c vramgc -n __fish_use_subcommand -f -a %s -d ", commands[i].name);
        fish_text(out, commands[i].summary);
        fputc('\n', out);
        for (size_t j = 0; j < options; j++)
            fish_option(out, commands[i].name, &flags[j]);
    }
}
