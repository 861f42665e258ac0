/* case.h: what the library would have written, from a line of words: "full request=600 phase=VAE".
 * A word without a figure is the first of its kind; sizes are in MiB, and what is not named is as
 * in a program that holds 7,900 MiB of a card of 8,192 for as many of tensors. What follows a & is
 * of another process. */
#ifndef CASE_H
#define CASE_H

#include "read/block_files.h"
#include "read/stats_file.h"

#include <stdlib.h>

struct program {
    struct vramgc_file *file;
    struct stats_file record;
    struct vramgc_refusal refusals[8];
    struct vramgc_job jobs[40];
    struct vramgc_action action;
};

/* Beside it `vramgc whatif` has left that a card of so many MiB does with expandable segments. */
static inline void set_whatif(struct program *program, const char *mib) {
    static char path[] = "build/unit/case";
    program->record.path = path;
    FILE *stream = open_beside(&program->record, "whatif", "we");
    fprintf(stream, "0 %llu expandable_segments:True\n", strtoull(mib, NULL, 10) << 20);
    fclose(stream);
}

/* To be given back with case_free(). A word that is not known fails the test. */
void case_make(struct program *program, const char *words);
void case_free(struct program *program);

#endif
