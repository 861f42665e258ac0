/* clean.h: makes the content of a statistics file harmless, whatever bytes it holds: texts end and
 * cannot steer a terminal, counts stay within their arrays. Figures are not judged. */
#ifndef CLEAN_H
#define CLEAN_H

#include <stddef.h>

struct vramgc_file;

/* file may not be NULL and is changed in place. */
void clean_file(struct vramgc_file *file);

/* Ends the text within capacity (at least 1); white space becomes a space, control characters and
 * bytes that are no UTF-8 a question mark. */
void clean_text(char *text, size_t capacity);

#endif
