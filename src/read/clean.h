/* clean.h: makes the content of a statistics file harmless, whatever bytes it holds: texts end and
 * cannot steer a terminal, counts stay within their arrays. Figures are not judged. */
#pragma once

struct vramgc_file;

/* file may not be NULL and is changed in place. */
void clean_file(struct vramgc_file *file);
