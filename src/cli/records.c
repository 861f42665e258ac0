/* records.c: see records.h. A file that cannot be read must not keep the others from being told. */
#include "cli/records.h"
#include "cli/complain.h"

#include <stdlib.h>

struct records records_load(char *const *paths, size_t count) {
    struct records records = {.list = calloc(count + 1, sizeof *records.list)};
    if (!records.list) {
        complain("no memory");
        return records;
    }
    for (size_t i = 0; i < count; i++) {
        char error[256];
        struct stats_file *record = stats_file_load(paths[i], error, sizeof error);
        if (record)
            records.list[records.count++] = record;
        else
            complain("%s: %s", paths[i], error);
    }
    stats_files_relate(records.list, records.count);
    records.complete = records.count == count;
    return records;
}

void records_free(struct records *records) {
    for (size_t i = 0; i < records->count; i++)
        stats_file_free(records->list[i]);
    free(records->list);
    *records = (struct records){0};
}
