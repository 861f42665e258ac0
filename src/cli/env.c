/* env.c: the command `vramgc env`: lines for webui-user.sh or any other shell script, which may be
 * added twice, or stay when vramgc goes. It changes nothing itself. */
#include "cli/cli.h"
#include "cli/preload.h"
#include "cli/settings.h"
#include "base/base.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FLAG_HELP };

const struct flag env_flags[] = {[FLAG_HELP] = {"help", 'h', NULL, "this text"}};
const size_t env_flag_count = ARRAY_LENGTH(env_flags);

/* In single quotes everything is literal but the quote itself. */
static void write_quoted(const char *value) {
    putchar('\'');
    for (; *value; value++)
        if (*value == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*value);
    putchar('\'');
}

/* Where another one is, as below `vramgc run`, or the file is gone, nothing is put in front. */
static void write_preload(const char *library, const char *colon, const char *allocator) {
    printf("[ ! -e \"%s\" ] || case ${LD_PRELOAD-} in *libvramgc.so*) ;; "
           "*) export LD_PRELOAD=\"%s${LD_PRELOAD:+:$LD_PRELOAD}%s%s\" ;; esac\n",
           library, library, colon, allocator);
}

/* The empty line: that of a file may lack its end. */
static void write_lines(const char *library, const char *const *values) {
    char allocator[PATH_MAX];
    puts("\n# vramgc begin. To undo: sed -i '/^# vramgc begin/,/^# vramgc end/d' FILE");
    for (size_t i = 0; i < option_count; i++) {
        if (!values[i])
            continue;
        printf("export %s=", option_table[i].variable);
        write_quoted(values[i]);
        putchar('\n');
    }
    if (preload_allocator("tcmalloc", allocator, sizeof allocator)) {
        puts("# webui.sh adds TCMalloc only while LD_PRELOAD is empty, so it is added here.");
        write_preload(library, ":", allocator);
    } else {
        write_preload(library, "", "");
    }
    puts("# vramgc end");
}

int env_main(int argc, char **argv) {
    struct flag flags[SETTINGS_MAX];
    const char *values[SETTINGS_MAX] = {NULL};
    char library[PATH_MAX], error[PATH_MAX + 256];
    struct args args = {.argc = argc, .argv = argv, .flags = flags, .command = "env", .next = 1};
    args.flag_count = settings_flags(flags, env_flags, env_flag_count);
    for (int index; (index = args_next(&args)) != ARGS_END;) {
        if (index == FLAG_HELP)
            return STATUS_HELP;
        const struct option_info *taken =
            index == ARGS_BAD ? NULL : settings_take((size_t)index - env_flag_count, &args);
        if (!taken)
            return STATUS_USAGE;
        values[taken - option_table] = getenv(taken->variable);
    }
    if (args.operand_count > 0) {
        complain("%s is too much; `vramgc env` takes options only", argv[0]);
        return STATUS_USAGE;
    }
    if (!preload_library(library, sizeof library, error, sizeof error)) {
        complain("%s", error);
        return STATUS_BAD_INPUT;
    }
    write_lines(library, values);
    return STATUS_FINE;
}
