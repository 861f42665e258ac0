/* The generated table behind cuGetProcAddress: which symbol a base name means from which CUDA
 * version on. The table holds every name in the public headers and nothing else. */
#ifndef SIM_LOOKUP_H
#define SIM_LOOKUP_H

typedef int lookup_fn(void);

enum lookup_kind { LOOKUP_LEGACY, LOOKUP_PER_THREAD };

struct lookup_row {
    const char *base;
    int since; /* CUDA version, 1000 * major + 10 * minor. */
    enum lookup_kind kind;
    const char *symbol;
    lookup_fn *function;
};

extern const struct lookup_row lookup_table[];
extern const unsigned lookup_rows;

#endif
