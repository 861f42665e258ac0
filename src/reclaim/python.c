/* python.c: see python.h. It must leave no Python error behind, and must not be inside PyTorch when
 * Python ends: before the first call it asks Python's own atexit to wait for it. */
#include "reclaim/python.h"

#include "base/base.h"
#include "base/text.h"
#include "real/real.h"

#include <dlfcn.h>
#include <string.h>

typedef void object; /* PyObject: never looked into */

/* As in Python's stable ABI (methodobject.h). */
struct method_definition {
    const char *name;
    object *(*function)(object *self, object *arguments);
    int flags;
    const char *doc;
};

enum { METH_NOARGS = 4, STOP_PATIENCE_MS = 5000 };

#define PYTHON_FUNCTIONS(X)                                                                        \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int))                                                             \
    X(object *, PyImport_ImportModule, (const char *))                                             \
    X(object *, PyObject_GetAttrString, (object *, const char *))                                  \
    X(object *, PyObject_CallFunctionObjArgs, (object *, ...))                                     \
    X(object *, PyObject_GetItem, (object *, object *))                                            \
    X(object *, PyCFunction_NewEx, (struct method_definition *, object *, object *))               \
    X(const char *, PyUnicode_AsUTF8AndSize, (object *, ptrdiff_t *))                              \
    X(void, Py_IncRef, (object *))                                                                 \
    X(void, Py_DecRef, (object *))                                                                 \
    X(void, PyErr_Clear, (void))                                                                   \
    X(void *, PyEval_SaveThread, (void))                                                           \
    X(void, PyEval_RestoreThread, (void *))

static struct {
    atomic_bool stopping; /* Python is about to end */
    atomic_bool inside;   /* our thread holds or waits for the GIL */
    bool looked_up, complete, registered;
    object *none;
#define X(result, name, parameters) result(*name) parameters;
    PYTHON_FUNCTIONS(X)
#undef X
} self;

static void look_up(void) {
    self.looked_up = true;
    self.complete = true;
#define X(result, name, parameters)                                                                \
    self.name = (result(*) parameters)real_dlsym(RTLD_DEFAULT, #name);                             \
    self.complete = self.complete && self.name != NULL;
    PYTHON_FUNCTIONS(X)
#undef X
    self.none = real_dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    self.complete = self.complete && self.none;
}

bool python_is_there(void) {
    if (!self.looked_up)
        look_up();
    return self.complete && self.Py_IsInitialized();
}

/* Gives up a reference; NULL is fine. */
static void drop(object *o) {
    if (o)
        self.Py_DecRef(o);
}

static object *attribute_of(const char *module, const char *name) {
    object *m = self.PyImport_ImportModule(module);
    object *attribute = m ? self.PyObject_GetAttrString(m, name) : NULL;
    drop(m);
    return attribute;
}

static object *call(const char *module, const char *name) {
    object *function = attribute_of(module, name);
    object *result = function ? self.PyObject_CallFunctionObjArgs(function, NULL) : NULL;
    drop(function);
    return result;
}

/* Called by Python's atexit, with the GIL, before Python starts to end. Our thread may be inside
 * PyTorch and need the GIL to come out. */
static object *python_ends(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    atomic_store(&self.stopping, true);
    void *state = self.PyEval_SaveThread();
    struct timespec step = {0, (long)MILLISECOND_NS};
    for (int i = 0; i < STOP_PATIENCE_MS && atomic_load(&self.inside); i++)
        nanosleep(&step, NULL);
    self.PyEval_RestoreThread(state);
    self.Py_IncRef(self.none);
    return self.none;
}

static bool register_end(void) {
    static struct method_definition definition = {"vramgc_stop", python_ends, METH_NOARGS, NULL};
    object *function = self.PyCFunction_NewEx(&definition, NULL, NULL);
    object *reg = function ? attribute_of("atexit", "register") : NULL;
    object *result = reg ? self.PyObject_CallFunctionObjArgs(reg, function, NULL) : NULL;
    bool registered = result != NULL;
    drop(result);
    drop(reg);
    drop(function);
    return registered;
}

/* sys._current_frames()[threading.main_thread().ident].f_code.co_name */
static void main_function(char *out, size_t capacity) {
    object *frames = call("sys", "_current_frames");
    object *thread = call("threading", "main_thread");
    object *ident = thread ? self.PyObject_GetAttrString(thread, "ident") : NULL;
    object *frame = frames && ident ? self.PyObject_GetItem(frames, ident) : NULL;
    object *code = frame ? self.PyObject_GetAttrString(frame, "f_code") : NULL;
    object *name = code ? self.PyObject_GetAttrString(code, "co_name") : NULL;
    const char *text = name ? self.PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    text_copy(out, capacity, text ? text : "");
    drop(name);
    drop(code);
    drop(frame);
    drop(ident);
    drop(thread);
    drop(frames);
}

static bool empty_cache_with_gil(char *function, size_t capacity) {
    if (!self.registered && !(self.registered = register_end())) {
        self.PyErr_Clear();
        return false;
    }
    if (function)
        main_function(function, capacity);
    self.PyErr_Clear();
    object *result = call("torch._C", "_cuda_emptyCache");
    bool emptied = result != NULL;
    drop(result);
    self.PyErr_Clear();
    return emptied;
}

bool python_empty_cache(char *function, size_t capacity) {
    bool emptied = false;
    if (function)
        function[0] = 0;
    if (!python_is_there())
        return false;
    atomic_store(&self.inside, true);
    if (!atomic_load(&self.stopping)) {
        int state = self.PyGILState_Ensure();
        if (!atomic_load(&self.stopping))
            emptied = empty_cache_with_gil(function, capacity);
        self.PyGILState_Release(state);
    }
    atomic_store(&self.inside, false);
    return emptied;
}
