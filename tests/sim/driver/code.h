/* Modules, libraries, kernels. */
#ifndef SIM_CODE_H
#define SIM_CODE_H

#include "driver.h"

struct kernel {
    struct kernel *next;
    uintptr_t handle; /* As CUkernel and as CUfunction. */
    struct module *module;
    int max_dynamic_shared;
    char name[];
};

/* Unloads the modules of a context that ends. */
void code_drop_context(struct context *context);

#endif
