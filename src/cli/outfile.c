/* outfile.c: see outfile.h. */
#include "cli/outfile.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How a report of ours begins, as JSON and as text. */
static const char *const beginnings[] = {"{\n  \"schema\": ", "-- vramgc "};

static bool is_report(const char *path) {
    char start[32] = "";
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    size_t length = fread(start, 1, sizeof start - 1, stream);
    fclose(stream);
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(start, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return length == 0;
}

/* A device or pipe is written to directly. */
static bool is_regular_or_absent(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode);
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The folder of path, to be freed. */
static char *folder_of(const char *path) {
    char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        slash[slash == folder ? 1 : 0] = 0;
    else if (folder)
        folder[0] = 0;
    return folder;
}

static bool folder_is_writable(const char *path) {
    char *folder = folder_of(path);
    bool fine = folder && access(*folder ? folder : ".", W_OK | X_OK) == 0;
    free(folder);
    return fine;
}

bool outfile_check(const char *path, bool force) {
    if (!path || strcmp(path, "-") == 0)
        return true;
    if (!*path || is_folder(path)) {
        complain("%s is not the name of a file to be written", *path ? path : "\"\"");
        return false;
    }
    if (!is_regular_or_absent(path))
        return true;
    if (access(path, F_OK) == 0 && !force && !is_report(path)) {
        complain("%s exists and is no report of vramgc; it is left alone", path);
        return false;
    }
    if (!folder_is_writable(path)) {
        complain("%s cannot be written: %s", path, strerror(errno));
        return false;
    }
    return true;
}

/* Where links lead, so that a rename replaces the file and not a link such as /dev/stdout. */
static char *behind_links(const char *path) {
    char *real = realpath(path, NULL);
    return real ? real : strdup(path);
}

static FILE *open_for(struct outfile *file) {
    if (!is_regular_or_absent(file->path))
        return fopen(file->path, "we");
    if (asprintf(&file->temporary, "%s.%ld.tmp", file->path, (long)getpid()) < 0) {
        file->temporary = NULL;
        return NULL;
    }
    return fopen(file->temporary, "wxe");
}

bool outfile_open(struct outfile *file, const char *path, bool force) {
    *file = (struct outfile){.stream = stdout};
    if (!path || strcmp(path, "-") == 0)
        return true;
    if (!outfile_check(path, force))
        return false;
    file->path = behind_links(path);
    file->stream = file->path ? open_for(file) : NULL;
    if (file->stream)
        return true;
    complain("%s cannot be written: %s", path, strerror(errno));
    free(file->path);
    free(file->temporary);
    return false;
}

static bool finish(struct outfile *file) {
    bool fine = !ferror(file->stream);
    fine = fflush(file->stream) == 0 && fine;
    if (!file->path)
        return fine;
    fine = fclose(file->stream) == 0 && fine;
    if (file->temporary)
        fine = fine && rename(file->temporary, file->path) == 0;
    return fine;
}

bool outfile_close(struct outfile *file) {
    bool fine = finish(file);
    if (!fine) {
        complain("%s cannot be written: %s", file->path ? file->path : "standard output",
                 strerror(errno));
        if (file->temporary)
            unlink(file->temporary);
    }
    free(file->path);
    free(file->temporary);
    return fine;
}
