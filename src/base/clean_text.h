/* clean_text.h: makes a text from outside (a file, an argument, a variable, a path) harmless where
 * it is shown: it can neither steer a terminal nor turn the direction of writing. */
#pragma once

#include <stddef.h>

/* Ends the text within capacity (at least 1); white space becomes a space, control characters and
 * bytes that are no UTF-8 a question mark. It never grows; the rest is filled with zero bytes. */
void clean_text(char *text, size_t capacity);
