/* settings.h: the settings of options.def as options of the command line, and what the launcher
 * does about them: it reads the environment with the library's own parser, warns once about what is
 * wrong, and passes on only what is right, so that the library has nothing left to say. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/args.h"
#include "base/options.h"

enum { SETTINGS_MAX = 64 }; /* settings and own flags of one command */

/* Writes the settings as flags (--threshold PERCENT, -t, ...) behind `own` flags into flags, which
 * has SETTINGS_MAX entries; how many there are in all. */
size_t settings_flags(struct flag *flags, const struct flag *own, size_t own_count);

/* Puts a setting from the command line into the environment. value NULL: a BOOL without one.
 * False after a complaint. */
bool settings_take(const struct option_info *info, const char *value);

/* Reads the environment, complains about each bad setting, and removes those from it.
 * How many there were. */
size_t settings_read(struct options *options);

/* What a value of the setting looks like: PERCENT, SIZE, off|observe|flush|compact|auto. */
const char *settings_argument(const struct option_info *info);

#endif
