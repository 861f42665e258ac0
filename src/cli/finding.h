/* finding.h: a line of `vramgc doctor`. */
#pragma once

#include <stddef.h>

enum mark { MARK_OK, MARK_NOTE, MARK_WRONG };

/* "WRONG  allocator  ..."; what is wrong is counted. The sentence says what to do about it. */
void finding(enum mark mark, const char *about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Between the two, lines wait: another program may be writing. */
void finding_hold(void);
void finding_release(void);

size_t finding_wrong_count(void);
