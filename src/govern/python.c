/* python.c: see python.h. It must leave no Python error behind, must never import anything, and
 * must not be inside PyTorch when Python ends (it could not come out again: PyTorch would abort) or
 * forks (PyTorch's lock would stay taken in the child): Python's atexit and os.register_at_fork
 * wait for it. */
#include "govern/python.h"

#include "base/base.h"
#include "base/text.h"
#include "cuda/objects.h"
#include "cuda/real.h"

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

/* A flush waits for the GPU; to go on without it is worse than to be late. */
enum { METH_NOARGS = 4, PATIENCE_MS = 60000 };

#define PYTHON_FUNCTIONS(X)                                                                        \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int))                                                             \
    X(int, PyGILState_Check, (void))                                                               \
    X(object *, PyImport_GetModuleDict, (void))                                                    \
    X(object *, PyDict_New, (void))                                                                \
    X(object *, PyDict_GetItemString, (object *, const char *))                                    \
    X(int, PyDict_SetItemString, (object *, const char *, object *))                               \
    X(object *, PyTuple_New, (ptrdiff_t))                                                          \
    X(object *, PyObject_Call, (object *, object *, object *))                                     \
    X(int, PyObject_IsTrue, (object *))                                                            \
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
    atomic_bool stopping;      /* Python is about to end */
    atomic_uint forking;       /* threads that are about to fork */
    atomic_bool inside;        /* our thread holds or waits for the GIL */
    unsigned long long looked; /* objects ever loaded when it was last looked for; 0: never */
    bool prepared;
    atomic_bool complete, registered;
    object *none;
#define X(result, name, parameters) result(*name) parameters;
    PYTHON_FUNCTIONS(X)
#undef X
} self;

static bool look_up(void) {
    bool complete = real_dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
    if (!complete)
        return false; /* the others need not be looked for */
#define X(result, name, parameters)                                                                \
    self.name = (result(*) parameters)real_dlsym(RTLD_DEFAULT, #name);                             \
    complete = complete && self.name != NULL;
    PYTHON_FUNCTIONS(X)
#undef X
    self.none = real_dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    return complete && self.none;
}

/* A program may open its Python late: it is looked for again after something was loaded. */
static bool found(void) {
    unsigned long long changes = self.complete ? self.looked : objects_changes();
    if (changes != self.looked) {
        self.looked = changes;
        self.complete = look_up();
    }
    return self.complete;
}

bool python_is_there(void) {
    return found() && self.Py_IsInitialized();
}

/* Gives up a reference; NULL is fine. */
static void drop(object *o) {
    if (o)
        self.Py_DecRef(o);
}

/* Looks only at what is loaded already: an import could run the program's code. */
static object *attribute_of(const char *module, const char *name) {
    object *m = self.PyDict_GetItemString(self.PyImport_GetModuleDict(), module); /* borrowed */
    return m ? self.PyObject_GetAttrString(m, name) : NULL;
}

static object *call(const char *module, const char *name) {
    object *function = attribute_of(module, name);
    object *result = function ? self.PyObject_CallFunctionObjArgs(function, NULL) : NULL;
    drop(function);
    return result;
}

/* Called with the GIL, which our thread may need to come out of PyTorch. */
static object *wait_until_outside(void) {
    void *state = self.PyEval_SaveThread();
    struct timespec step = {0, (long)MILLISECOND_NS};
    for (int i = 0; i < PATIENCE_MS && atomic_load(&self.inside); i++)
        nanosleep(&step, NULL);
    self.PyEval_RestoreThread(state);
    self.Py_IncRef(self.none);
    return self.none;
}

static object *python_ends(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    atomic_store(&self.stopping, true);
    return wait_until_outside();
}

static object *before_fork(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    atomic_fetch_add(&self.forking, 1);
    return wait_until_outside();
}

static object *after_fork_in_parent(object *module, object *arguments) {
    (void)module;
    (void)arguments;
    atomic_fetch_sub(&self.forking, 1);
    self.Py_IncRef(self.none);
    return self.none;
}

static object *as_python(struct method_definition *definition) {
    return self.PyCFunction_NewEx(definition, NULL, NULL);
}

static bool register_end(void) {
    static struct method_definition definition = {"vramgc_stop", python_ends, METH_NOARGS, NULL};
    object *function = as_python(&definition);
    object *reg = function ? attribute_of("atexit", "register") : NULL;
    object *result = reg ? self.PyObject_CallFunctionObjArgs(reg, function, NULL) : NULL;
    bool registered = result != NULL;
    drop(result);
    drop(reg);
    drop(function);
    return registered;
}

/* Puts a function into the keyword arguments. */
static bool add_argument(object *arguments, const char *name,
                         struct method_definition *definition) {
    object *function = as_python(definition);
    bool added = function && self.PyDict_SetItemString(arguments, name, function) == 0;
    drop(function);
    return added;
}

static bool register_fork(void) {
    static struct method_definition before = {"vramgc_before_fork", before_fork, METH_NOARGS, NULL};
    static struct method_definition after = {"vramgc_after_fork", after_fork_in_parent, METH_NOARGS,
                                             NULL};
    object *reg = attribute_of("os", "register_at_fork");
    object *none = self.PyTuple_New(0);
    object *named = self.PyDict_New();
    object *result = NULL;
    if (reg && none && named && add_argument(named, "before", &before) &&
        add_argument(named, "after_in_parent", &after))
        result = self.PyObject_Call(reg, none, named);
    bool registered = result != NULL;
    drop(result);
    drop(named);
    drop(none);
    drop(reg);
    return registered;
}

/* What is registered after Python's end has begun is never called. Its first step, before atexit,
 * is to mark the main thread as ended. */
static bool end_has_begun(void) {
    object *thread = call("threading", "main_thread");
    object *is_alive = thread ? self.PyObject_GetAttrString(thread, "is_alive") : NULL;
    object *alive = is_alive ? self.PyObject_CallFunctionObjArgs(is_alive, NULL) : NULL;
    bool begun = !alive || self.PyObject_IsTrue(alive) != 1;
    drop(alive);
    drop(is_alive);
    drop(thread);
    return begun;
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
    if (function)
        main_function(function, capacity);
    self.PyErr_Clear();
    object *result = call("torch._C", "_cuda_emptyCache");
    bool emptied = result != NULL;
    drop(result);
    self.PyErr_Clear();
    return emptied;
}

/* The GIL, unless Python is about to end or to fork: then it waits for us to be outside. */
static bool enter(int *state) {
    atomic_store(&self.inside, true);
    if (!atomic_load(&self.stopping) && atomic_load(&self.forking) == 0) {
        *state = self.PyGILState_Ensure();
        if (!atomic_load(&self.stopping) && atomic_load(&self.forking) == 0)
            return true;
        self.PyGILState_Release(*state);
    }
    atomic_store(&self.inside, false);
    return false;
}

static void leave(int state) {
    self.PyGILState_Release(state);
    atomic_store(&self.inside, false);
}

void python_prepare(void) {
    int state;
    if (self.prepared || !python_is_there() || !enter(&state))
        return;
    self.prepared = true;
    atomic_store(&self.registered, register_fork() && register_end() && !end_has_begun());
    self.PyErr_Clear();
    leave(state);
}

bool python_empty_cache(char *function, size_t capacity, bool (*must_not)(void)) {
    bool emptied = false;
    int state;
    if (function)
        function[0] = 0;
    if (!atomic_load(&self.registered) || !python_is_there() || !enter(&state))
        return false;
    if (!must_not())
        emptied = empty_cache_with_gil(function, capacity);
    leave(state);
    return emptied;
}

bool python_may_empty(void) {
    return atomic_load(&self.registered) && !atomic_load(&self.stopping);
}

void python_process_ends(void) {
    atomic_store(&self.stopping, true);
    if (self.complete && atomic_load(&self.inside) && self.Py_IsInitialized() &&
        self.PyGILState_Check())
        drop(wait_until_outside());
}

void python_thread_ended(void) {
    atomic_store(&self.stopping, true);
    atomic_store(&self.inside, false);
}

void python_forget(void) {
    atomic_store(&self.inside, false);
}
