/* Modules, libraries and kernels. Code is never looked at: every kernel that is asked for exists,
 * and a launch does nothing but take its place in the stream. */
#include "code.h"
#include "capture.h"
#include "hard.h"
#include "latency.h"
#include "memory.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GLOBAL_BYTES = 64 << 10 };

struct variable {
    struct variable *next;
    struct block *block;
    char name[];
};

/* A module, or a library, which is the same here. */
struct module {
    struct module *next;
    struct context *context; /* NULL for a library. */
    uintptr_t handle;        /* As CUmodule. */
    uintptr_t library;       /* As CUlibrary, or 0. */
    struct kernel *kernels;
    struct variable *variables;
    unsigned loaded; /* Bit per device that has its code. */
};

static struct { struct module *modules; } code;

static struct module *module_new(struct context *context) {
    struct module *module = calloc(1, sizeof *module);
    if (module == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    module->context = context;
    module->handle = handle_make(HANDLE_MODULE, module);
    module->next = code.modules;
    code.modules = module;
    return module;
}

static void code_unload(struct module *module, const struct device *device) {
    unsigned bit = 1u << device->ordinal;
    if (module->loaded & bit)
        other_give_back(&sim.devices[device->ordinal], sim.config.module_mem_bytes);
    module->loaded &= ~bit;
}

/* As lazy loading is documented: a kernel comes to the device when it is first launched, and the
 * context may be waited for then. */
CUresult code_load(struct kernel *kernel, struct context *context) {
    struct module *module = kernel->module;
    unsigned bit = 1u << context->device->ordinal;
    if (!context->has_local_memory && !other_take(context->device, sim.config.local_mem_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->has_local_memory = true;
    if (!(module->loaded & bit) && !other_take(context->device, sim.config.module_mem_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->loaded |= bit;
    if (kernel->loaded || !sim.config.context_lock)
        return CUDA_SUCCESS;
    kernel->loaded = true;
    latency_pass(COST_LOAD, 0);
    return capture_goes_on() ? CUDA_SUCCESS : queue_wait_context(context);
}

static void module_free(struct module *module) {
    struct module **link = &code.modules;
    while (*link != module)
        link = &(*link)->next;
    *link = module->next;
    for (int i = 0; i < MAX_DEVICES; i++)
        code_unload(module, &sim.devices[i]);
    for (struct kernel *kernel = module->kernels, *next; kernel != NULL; kernel = next) {
        next = kernel->next;
        handle_drop(kernel->handle);
        free(kernel);
    }
    for (struct variable *variable = module->variables, *next; variable != NULL; variable = next) {
        next = variable->next;
        release_block(variable->block);
        free(variable);
    }
    handle_drop(module->handle);
    if (module->library != 0)
        handle_drop(module->library);
    free(module);
}

/* The variables of a library are made anew in the next context. */
static void drop_variables(struct module *module, const struct context *context) {
    struct variable **link = &module->variables;
    while (*link != NULL) {
        struct variable *variable = *link;
        if (variable->block->context != context) {
            link = &variable->next;
            continue;
        }
        *link = variable->next;
        release_block(variable->block);
        free(variable);
    }
}

void code_drop_context(struct context *context) {
    struct module *module = code.modules;
    while (module != NULL) {
        struct module *next = module->next;
        drop_variables(module, context);
        code_unload(module, context->device);
        if (module->context == context)
            module_free(module);
        module = next;
    }
}

static struct kernel *kernel_of(struct module *module, const char *name) {
    for (struct kernel *kernel = module->kernels; kernel != NULL; kernel = kernel->next)
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    struct kernel *kernel = calloc(1, sizeof *kernel + strlen(name) + 1);
    if (kernel == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    strcpy(kernel->name, name);
    kernel->module = module;
    kernel->handle = handle_make(HANDLE_KERNEL, kernel);
    kernel->next = module->kernels;
    module->kernels = kernel;
    return kernel;
}

/* ---- modules ---- */

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    *mode = CU_MODULE_LAZY_LOADING;
    END(CUDA_SUCCESS);
}

CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    if (out == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    *out = (CUmodule)module_new(context_current())->handle;
    END(CUDA_SUCCESS);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
    (void)count;
    (void)options;
    (void)values;
    return cuModuleLoadData(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image) {
    return cuModuleLoadData(out, image);
}

CUresult cuModuleLoad(CUmodule *out, const char *path) {
    if (out == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (access(path, R_OK) != 0)
        return CUDA_ERROR_FILE_NOT_FOUND;
    return cuModuleLoadData(out, path);
}

static struct module *module_of(CUmodule handle) {
    struct module *module = handle_get((uintptr_t)handle, HANDLE_MODULE);
    if (module == NULL)
        sim_fault("module %p does not exist", (void *)handle);
    return module;
}

CUresult cuModuleUnload(CUmodule handle) {
    BEGIN(NEED_CONTEXT);
    struct module *module = module_of(handle);
    if (module == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    module_free(module);
    END(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name) {
    if (out == NULL || name == NULL || name[0] == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct module *module = module_of(handle);
    if (module == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    *out = (CUfunction)kernel_of(module, name)->handle;
    END(CUDA_SUCCESS);
}

static CUresult variable_of(struct module *module, const char *name, struct block **out) {
    for (struct variable *variable = module->variables; variable != NULL; variable = variable->next)
        if (strcmp(variable->name, name) == 0) {
            *out = variable->block;
            return CUDA_SUCCESS;
        }
    struct variable *variable = calloc(1, sizeof *variable + strlen(name) + 1);
    if (variable == NULL)
        abort(); /* Out of host memory: nothing sensible is left to simulate. */
    CUresult result = allocate_device(context_current(), GLOBAL_BYTES, out);
    if (result != CUDA_SUCCESS) {
        free(variable);
        return result;
    }
    strcpy(variable->name, name);
    variable->block = *out;
    variable->next = module->variables;
    module->variables = variable;
    return CUDA_SUCCESS;
}

static CUresult give_variable(CUdeviceptr *pointer, size_t *bytes, struct module *module,
                              const char *name) {
    struct block *block;
    if (module == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = variable_of(module, name, &block);
    if (result != CUDA_SUCCESS)
        return result;
    if (pointer != NULL)
        *pointer = block->at.base;
    if (bytes != NULL)
        *bytes = block->at.size_bytes;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule handle,
                              const char *name) {
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    END(give_variable(pointer, bytes, module_of(handle), name));
}

/* ---- libraries ---- */

static struct module *library_of(CUlibrary handle) {
    struct module *module = handle_get((uintptr_t)handle, HANDLE_LIBRARY);
    if (module == NULL)
        sim_fault("library %p does not exist", (void *)handle);
    return module;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *jit_options,
                           void **jit_values, unsigned jit_count, CUlibraryOption *options,
                           void **values, unsigned count) {
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    if (out == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct module *module = module_new(NULL);
    module->library = handle_make(HANDLE_LIBRARY, module);
    *out = (CUlibrary)module->library;
    END(CUDA_SUCCESS);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit_options,
                               void **jit_values, unsigned jit_count, CUlibraryOption *options,
                               void **values, unsigned count) {
    if (out == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (access(path, R_OK) != 0)
        return CUDA_ERROR_FILE_NOT_FOUND;
    return cuLibraryLoadData(out, path, jit_options, jit_values, jit_count, options, values, count);
}

CUresult cuLibraryUnload(CUlibrary handle) {
    BEGIN(NEED_INIT);
    struct module *module = library_of(handle);
    if (module == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    module_free(module);
    END(CUDA_SUCCESS);
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name) {
    if (out == NULL || name == NULL || name[0] == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct module *module = library_of(handle);
    if (module == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    *out = (CUkernel)kernel_of(module, name)->handle;
    END(CUDA_SUCCESS);
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary handle) {
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    struct module *module = library_of(handle);
    if (module == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    *out = (CUmodule)module->handle;
    END(CUDA_SUCCESS);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary handle,
                            const char *name) {
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_CONTEXT);
    END(give_variable(pointer, bytes, library_of(handle), name));
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary handle) {
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    BEGIN(NEED_INIT);
    struct module *module = library_of(handle);
    if (module == NULL)
        END(CUDA_ERROR_INVALID_HANDLE);
    *count = 0;
    for (struct kernel *kernel = module->kernels; kernel != NULL; kernel = kernel->next)
        ++*count;
    END(CUDA_SUCCESS);
}
