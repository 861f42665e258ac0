/* outfile.h: a file that a report is written to. A file that already exists is replaced only if it
 * is empty or a report of vramgc, so that a slip of the hand loses nothing; it appears whole or not
 * at all. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct outfile {
    FILE *stream;
    char *path;      /* NULL: standard output */
    char *temporary; /* written first, then renamed; NULL: path is written directly */
};

/* path NULL or "-" is standard output. False after a complaint. */
bool outfile_open(struct outfile *file, const char *path, bool force);

/* False after a complaint: not everything could be written; an old file is then left alone. */
bool outfile_close(struct outfile *file);

/* True: path is a new file in a folder that can be written to, or a report of vramgc there. */
bool outfile_may_write(const char *path);

/* True: outfile_open() would succeed; false after a complaint. Writes nothing. */
bool outfile_check(const char *path, bool force);
