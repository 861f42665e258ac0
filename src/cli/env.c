/* env.c: the command `vramgc env`: lines for webui-user.sh or any other shell script, which may be
 * added twice, or stay when vramgc goes. It changes nothing itself. */
#include "cli/alert_commands.h"
#include "cli/cli.h"
#include "cli/preload.h"
#include "cli/prove_first.h"
#include "show/summary_lines.h"
#include "base/text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where another one is, as below `vramgc run`, or the file is gone, nothing is put in front. */
static void write_preload(const char *library) {
    printf("[ ! -e \"%s\" ] || case ${LD_PRELOAD-} in *libvramgc.so*) ;; "
           "*) export LD_PRELOAD=\"%s${LD_PRELOAD:+:$LD_PRELOAD}\" ;; esac\n",
           library, library);
}

/* As preload_script_adds_tcmalloc has it for `vramgc run`; $0 is the script that reads the lines.
 */
static void write_tcmalloc(const char *library) {
    char allocator[PATH_MAX];
    if (!preload_allocator("tcmalloc", allocator, sizeof allocator))
        return;
    puts("# A webui.sh that adds TCMalloc does so only while LD_PRELOAD is empty: here it is "
         "added.");
    printf("[ \"${LD_PRELOAD-}\" != \"%s\" ] || [ -n \"${NO_TCMALLOC-}\" ] || "
           "! grep -qs tcmalloc -- \"$0\" || LD_PRELOAD=\"%s:%s\"\n",
           library, library, allocator);
}

/* As it was typed, but that ./PROGRAM is found from another folder, too. False where a space in the
 * name of this one would end the word. */
static bool rules_for_file(const struct alert_rules *rules, char *out, size_t capacity) {
    char folder[PATH_MAX] = "";
    struct text text = text_in(out, capacity);
    for (size_t i = 0; i < rules->count; i++) {
        const struct alert_rule *rule = &rules->list[i];
        const char *slash = strchr(rule->command, '/');
        bool is_here = slash && slash - rule->command < (long)strcspn(rule->command, " \t") &&
                       slash != rule->command && !rule->shell;
        if (is_here && (!getcwd(folder, sizeof folder) || strpbrk(folder, " \t;\n")))
            return false;
        text_format(&text, "%s%s:%s",
                    i == 0                     ? ""
                    : rules->list[i - 1].shell ? "\n"
                                               : ";",
                    rule->when, rule->shell ? "!" : "");
        if (is_here)
            text_format(&text, "%s/", folder);
        text_add(&text, rule->command + (is_here && strncmp(rule->command, "./", 2) == 0 ? 2 : 0));
    }
    return true;
}

/* It is no child of the script, which may wait for all of its own, and ends with it. */
static void write_watch(const char *rules) {
    char command[PATH_MAX] = "";
    bool parks = settings_typed(settings_find("park"));
    if ((!*rules && !parks) || readlink("/proc/self/exe", command, sizeof command - 1) <= 0)
        return;
    printf("[ ! -x \"%s\" ] || ( VRAMGC_ON=", command);
    shell_word(stdout, rules);
    printf(" \"%s\" watch $$ & )\n", command);
}

/* The empty line: that of a file may lack its end. */
static void write_lines(const char *library, const char *rules) {
    puts("\n# vramgc begin. To undo: sed -i '/^# vramgc begin/,/^# vramgc end/d' FILE");
    for (size_t i = 0; i < option_count; i++) {
        const char *value =
            settings_typed(&option_table[i]) ? getenv(option_table[i].variable) : NULL;
        if (!value || strcmp(option_table[i].name, "on") == 0)
            continue;
        printf("export %s=", option_table[i].variable);
        shell_word(stdout, value);
        putchar('\n');
    }
    write_preload(library);
    write_tcmalloc(library);
    write_watch(rules);
    puts("# vramgc end");
}

/* Before it stands in a file, where nobody would look for the mistake. */
static bool take_rules(char *out, size_t capacity) {
    static struct alert_rules rules;
    const struct option_info *on = settings_find("on");
    char why[256];
    *out = 0;
    if (!settings_typed(on))
        return true;
    if (!alert_commands_read(&rules, getenv(on->variable), why, sizeof why))
        complain("--on: %s (see `vramgc help watch`)", why);
    else if (rules_for_file(&rules, out, capacity))
        return true;
    else
        complain("--on: this folder's name has a space: behind ! give the command's whole path, "
                 "in quotes");
    return false;
}

static int env_main(struct args *args) {
    char library[PATH_MAX], error[PATH_MAX + 256], rules[ALERT_RULES_MAX * PATH_MAX];
    (void)args;
    if (!take_rules(rules, sizeof rules))
        return STATUS_USAGE;
    if (!preload_library(library, sizeof library, error, sizeof error)) {
        complain("%s", error);
        return STATUS_BAD_INPUT;
    }
    struct options options;
    settings_read_environment(&options);
    prove_first(&options);
    write_lines(library, rules);
    return STATUS_FINE;
}

const struct command env_command = {
    "env",
    GROUP_START,
    "",
    "print lines for webui-user.sh: your web UI then starts with vramgc",
    "Options are settings to be put into the lines.\n",
    .takes_settings = true,
    .main = env_main,
};
