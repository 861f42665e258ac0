/* records.c: see records.h. A file that cannot be read must not keep the others from being told. */
#include "read/records.h"
#include "read/complain.h"
#include "base/base.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As `vramgc list` shows it: by its pid, or the name of its file. Where several had the pid, the
 * newest. To be freed; NULL: none is kept. */
static char *kept_path(const char *name) {
    struct kept kept = kept_find();
    char *path = NULL;
    for (size_t i = 0; i < kept.count && !path; i++) {
        char pid[24];
        snprintf(pid, sizeof pid, "%llu", (unsigned long long)kept.files[i].peek.pid);
        if (strcmp(name, pid) == 0 || strcmp(name, text_after_folder(kept.files[i].path)) == 0)
            path = strdup(kept.files[i].path);
    }
    kept_free(&kept);
    return path;
}

/* A file that is there has the name; else what is kept. */
static void load_one(struct records *records, const char *name, const char *hint) {
    char error[256];
    bool there = access(name, F_OK) == 0;
    char *kept = there ? NULL : kept_path(name);
    struct stats_file *record = stats_file_load(kept ? kept : name, error, sizeof error);
    if (record)
        records->list[records->count++] = record;
    else
        complain("%s: %s%s", name, error, there ? "" : hint);
    free(kept);
}

static struct records load_records(char *const *paths, size_t count, const char *hint) {
    struct records records = {.list = calloc(count + 1, sizeof *records.list)};
    if (!records.list) {
        complain("no memory");
        return records;
    }
    for (size_t i = 0; i < count; i++)
        load_one(&records, paths[i], hint);
    stats_files_relate(records.list, records.count);
    records.complete = records.count == count;
    return records;
}

struct records records_load_kept(const struct kept *kept, size_t count) {
    char **paths = calloc(count + 1, sizeof *paths);
    for (size_t i = 0; paths && i < count; i++)
        paths[i] = kept->files[i].path;
    struct records records = load_records(paths, paths ? count : 0, "");
    free(paths);
    return records;
}

struct records records_load(char *const *paths, size_t count) {
    return records_load_or_hint(paths, count, RECORDS_HINT);
}

struct records records_load_or_hint(char *const *paths, size_t count, const char *hint) {
    if (count > 0)
        return load_records(paths, count, hint);
    struct kept kept = kept_find();
    struct records records = records_load_kept(&kept, kept_newest_run(&kept));
    if (kept.count == 0) {
        complain("no statistics file is kept; `vramgc run` makes one, or name one");
        records.complete = false;
    }
    kept_free(&kept);
    return records;
}

/* Prometheus takes a sample for that of now for so long (--query.lookback-delta): whoever collects
 * less often has gaps all the same. */
#define LATELY_NS (300 * SECOND_NS)

struct records records_load_running(char *const *paths, size_t count) {
    if (count > 0)
        return load_records(paths, count, RECORDS_HINT);
    struct kept kept = kept_find();
    struct kept running = {.files = calloc(kept.count + 1, sizeof *running.files)};
    for (size_t i = 0; running.files && i < kept.count; i++)
        if (process_lives(kept.files[i].peek.pid, kept.files[i].peek.process_start) ||
            kept_age_ns(&kept.files[i].peek) < LATELY_NS)
            running.files[running.count++] = kept.files[i];
    struct records records = records_load_kept(&running, running.count);
    records.lately = true;
    free(running.files);
    kept_free(&kept);
    return records;
}

void records_free(struct records *records) {
    for (size_t i = 0; i < records->count; i++)
        stats_file_free(records->list[i]);
    free(records->list);
    *records = (struct records){0};
}
