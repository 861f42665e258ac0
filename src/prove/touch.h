/* touch.h: checks: what copies, kernels and questions see of mapped pages. Rows of check_table.c.
 */
#ifndef PROVE_ACCESS_H
#define PROVE_ACCESS_H

#include "prove/check.h"

enum outcome check_kernels(struct text *said);
enum outcome check_copies(struct text *said);
enum outcome check_shapes(struct text *said);
enum outcome check_pointers(struct text *said);
enum outcome check_names(struct text *said);
enum outcome check_no_access(struct text *said);
enum outcome check_after_fault(struct text *said);

#endif
