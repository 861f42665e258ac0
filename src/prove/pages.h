/* pages.h: checks: what the driver does with handles, mappings and addresses. Rows of
 * check_table.c. */
#ifndef PROVE_PAGES_H
#define PROVE_PAGES_H

#include "prove/check.h"

enum outcome check_grain(struct text *said);
enum outcome check_content(struct text *said);
enum outcome check_translation(struct text *said);
enum outcome check_access(struct text *said);
enum outcome check_partial(struct text *said);
enum outcome check_addresses(struct text *said);
enum outcome check_host(struct text *said);

#endif
