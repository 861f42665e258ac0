/* settings.h: the settings of options.def as options of the command line, and what the launcher
 * does about them: it reads the environment with the library's own parser, warns once about what is
 * wrong, and passes on only what is right, so that the library has nothing left to say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/args.h"
#include "base/options.h"

/* Writes the settings as flags (--threshold PERCENT, -t, ...), option_count of them, and behind
 * them other words for some (--give-back); how many in all. What is typed goes into the
 * environment. */
size_t settings_flags(struct flag *flags, size_t capacity);

/* An option that is a setting, of another command. */
bool settings_take(const struct args *args);

/* The setting of that name, as in the table; NULL: there is none. */
const struct option_info *settings_find(const char *name);

/* One that is set for a card, a web UI or a wish; of the others the standard is mostly right. */
bool settings_is_often_set(const char *name);

/* Whether that one of option_table was typed. */
bool settings_typed(const struct option_info *info);

/* Reads the environment, complains about each bad setting, and removes those from it. */
void settings_read(struct options *options);

/* What a value of the setting looks like: PERCENT, SIZE, off|observe|flush|compact|auto. */
const char *settings_argument(const struct option_info *info);
