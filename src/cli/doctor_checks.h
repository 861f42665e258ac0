/* doctor_checks.h: what `vramgc doctor` finds. Each check tells it, and changes nothing. */
#pragma once

#include <stddef.h>

enum mark { MARK_OK, MARK_NOTE, MARK_WRONG };

/* A line: "WRONG  allocator  ..."; what is wrong is counted. The sentence says what to do about it.
 */
void finding(enum mark mark, const char *about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Between the two, lines wait: another program may be writing. */
void finding_hold(void);
void finding_release(void);

size_t finding_wrong_count(void);

/* The library, LD_PRELOAD, settings, the state folder, container, WSL. */
void doctor_host(void);

/* The driver, the cards, and whether they are proven; and whether the driver is new enough for a
 * PyTorch that is made for this CUDA ("": not known). */
void doctor_cards(const char *torch_cuda);

/* PyTorch's setting for its allocator. */
void doctor_allocator(void);
