/* Modules, libraries, kernels. */
#ifndef SIM_CODE_H
#define SIM_CODE_H

#include "driver.h"

struct kernel {
    struct kernel *next;
    uintptr_t handle; /* As CUkernel and as CUfunction. */
    struct module *module;
    int max_dynamic_shared;
    bool loaded; /* It has been launched. */
    char name[];
};

/* Before a launch: what is loaded only then takes time and memory. The lock may be let go. */
CUresult code_load(struct kernel *kernel, struct context *context);
/* Unloads the modules of a context that ends. */
void code_drop_context(struct context *context);

#endif
