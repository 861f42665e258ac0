/* python_api.c: see python_api.h. It must not call Python but for what is asked of it. */
#include "python/python_api.h"

#include "base/lock.h"
#include "cuda/objects.h"
#include "cuda/real.h"

#include <dlfcn.h>

static struct {
    struct lock lock;
    struct python_api api;
    unsigned long long looked; /* objects ever loaded when it was last looked for; 0: never */
    atomic_bool complete;
} self;
CHILD_OPENS(self.lock);

#define FIND(result, name, parameters)                                                             \
    api->name = (result(*) parameters)real_dlsym(RTLD_DEFAULT, #name);
#define AND_IT(result, name, parameters) &&api->name

static bool look_up_functions(struct python_api *api) {
    if (!real_dlsym(RTLD_DEFAULT, "Py_IsInitialized"))
        return false; /* the others need not be looked for */
    PYTHON_FUNCTIONS(FIND)
    PYTHON_FRAME_FUNCTIONS(FIND)
    PYTHON_HIDING_FUNCTIONS(FIND)
    api->none = real_dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    api->code_type = real_dlsym(RTLD_DEFAULT, "PyCode_Type");
    bool complete = api->none PYTHON_FUNCTIONS(AND_IT);
    api->has_frames = complete && api->code_type PYTHON_FRAME_FUNCTIONS(AND_IT);
    return complete;
}

/* The loader is asked without the lock, and two threads may ask at a time; the first to know it
 * writes it down. */
static void look_again(unsigned long long changes) {
    struct python_api api = {0};
    bool complete = look_up_functions(&api);
    LOCKED(&self.lock);
    self.looked = changes;
    if (complete && !atomic_load(&self.complete)) {
        self.api = api;
        atomic_store(&self.complete, true);
    }
}

const struct python_api *python_api(void) {
    if (!atomic_load(&self.complete)) {
        unsigned long long changes = objects_changes();
        lock_take(&self.lock);
        bool seen = changes == self.looked;
        lock_give(&self.lock);
        if (!seen)
            look_again(changes);
    }
    return py();
}

const struct python_api *py(void) {
    return atomic_load(&self.complete) ? &self.api : NULL;
}

void python_drop(object *o) {
    if (o)
        py()->Py_DecRef(o);
}

object *python_attribute_of(const char *module, const char *name) {
    object *m = py()->PyDict_GetItemString(py()->PyImport_GetModuleDict(), module); /* borrowed */
    return m ? py()->PyObject_GetAttrString(m, name) : NULL;
}

object *python_call(const char *module, const char *name) {
    OWNED object *function = python_attribute_of(module, name);
    return function ? py()->PyObject_CallFunctionObjArgs(function, NULL) : NULL;
}
