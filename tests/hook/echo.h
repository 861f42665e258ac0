/* echo.h: what the echoing libraries (echo.c) and the test that calls them (passthrough.c) share:
 * the arguments of the latest call as bytes, and the result of the next. */
#ifndef ECHO_H
#define ECHO_H

#include <stddef.h>

struct echo {
    const char *name; /* of the latest call */
    unsigned calls;   /* of functions of the table, in all */
    size_t length;
    unsigned char arguments[256];
    int result; /* what every hooked function answers */
};

/* Exported by each echoing library. */
struct echo *echo_state(void);

/* Up to eleven arguments, each copied as bytes to where they belong. */
#define ECHO_PUT(e, a)                                                                             \
    (__builtin_memcpy((e)->arguments + (e)->length, &(a), sizeof(a)), (e)->length += sizeof(a));
#define ECHO_0(e)
#define ECHO_1(e, a)       ECHO_PUT(e, a)
#define ECHO_2(e, a, ...)  ECHO_PUT(e, a) ECHO_1(e, __VA_ARGS__)
#define ECHO_3(e, a, ...)  ECHO_PUT(e, a) ECHO_2(e, __VA_ARGS__)
#define ECHO_4(e, a, ...)  ECHO_PUT(e, a) ECHO_3(e, __VA_ARGS__)
#define ECHO_5(e, a, ...)  ECHO_PUT(e, a) ECHO_4(e, __VA_ARGS__)
#define ECHO_6(e, a, ...)  ECHO_PUT(e, a) ECHO_5(e, __VA_ARGS__)
#define ECHO_7(e, a, ...)  ECHO_PUT(e, a) ECHO_6(e, __VA_ARGS__)
#define ECHO_8(e, a, ...)  ECHO_PUT(e, a) ECHO_7(e, __VA_ARGS__)
#define ECHO_9(e, a, ...)  ECHO_PUT(e, a) ECHO_8(e, __VA_ARGS__)
#define ECHO_10(e, a, ...) ECHO_PUT(e, a) ECHO_9(e, __VA_ARGS__)
#define ECHO_11(e, a, ...) ECHO_PUT(e, a) ECHO_10(e, __VA_ARGS__)

#define ECHO_PICK(a, b, c, d, e, f, g, h, i, j, k, l, name, ...) name
#define ECHO_ARGUMENTS(...)                                                                        \
    ECHO_PICK(dummy __VA_OPT__(, ) __VA_ARGS__, ECHO_11, ECHO_10, ECHO_9, ECHO_8, ECHO_7, ECHO_6,  \
              ECHO_5, ECHO_4, ECHO_3, ECHO_2, ECHO_1, ECHO_0)                                      \
    (noted __VA_OPT__(, ) __VA_ARGS__)

#endif
