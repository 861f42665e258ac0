/* html_text.h: text in a page, with no letter of it read as markup. Nothing here knows what it
 * says.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

void html_text(FILE *out, const char *text);

/* <NAME CLASS>text</NAME>: a cell, a term; name may carry attributes of our own, such as
 * td class="t". No line ends within an option, such as --spill. */
void html_element(FILE *out, const char *name, const char *text);

/* The same, of what printf() makes of it. */
void html_format(FILE *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* JSON as it may stand within a script element. */
void html_json(FILE *out, const char *json, size_t length);
