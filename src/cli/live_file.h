/* live_file.h: the statistics file of a program that runs, to be written beside the program. */
#ifndef LIVE_FILE_H
#define LIVE_FILE_H

#include "vramgc_format.h"

/* who: the number of the process, or a word of its name, folder or arguments that no other program
 * under vramgc has; not NULL, not empty. NULL after a complaint. */
struct vramgc_file *live_file_open(const char *who);
void live_file_close(struct vramgc_file *file); /* may be NULL */

#endif
